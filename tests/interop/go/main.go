// Command interop drives the server at the given address with franz-go.
//
//	interop HOST:PORT [CHECK...]
//
// Each check prints one line, "=> ok NAME" or "=> failed NAME: why". Every check uses topics and groups of its own.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const deadline = 45 * time.Second

var bootstrap string

type check struct {
	name string
	run  func(ctx context.Context, adm *kadm.Client)
}

func main() {
	bootstrap = os.Args[1]
	checks := []check{
		{"round-trip-none", roundTrip(kgo.NoCompression())},
		{"round-trip-gzip", roundTrip(kgo.GzipCompression())},
		{"round-trip-snappy", roundTrip(kgo.SnappyCompression())},
		{"round-trip-lz4", roundTrip(kgo.Lz4Compression())},
		{"round-trip-zstd", roundTrip(kgo.ZstdCompression())},
		{"acks-none", acknowledgements(kgo.NoAck())},
		{"acks-leader", acknowledgements(kgo.LeaderAck())},
		{"order", order},
		{"too-large", tooLarge},
		{"seek-and-times", seekAndTimes},
		{"long-poll", longPoll},
		{"auto-create", autoCreate},
		{"deleted-topic", deletedTopic},
		{"group-range", group(kgo.RangeBalancer())},
		{"group-cooperative-sticky", group(kgo.CooperativeStickyBalancer())},
		{"group-crash", groupCrash},
		{"group-static", groupStatic},
		{"group-resume", groupResume},
		{"admin-topics", adminTopics},
		{"admin-groups", adminGroups},
	}
	adm := kadm.NewClient(client())
	defer adm.Close()
	for _, check := range checks {
		if len(os.Args) > 2 && !slices.Contains(os.Args[2:], check.name) {
			continue
		}
		if err := attempt(check, adm); err != nil {
			fmt.Printf("=> failed %s: %v\n", check.name, err)
		} else {
			fmt.Printf("=> ok %s\n", check.name)
		}
	}
}

func attempt(check check, adm *kadm.Client) (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("%v", problem)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	check.run(ctx, adm)
	return nil
}

// ---- records

func samples() []*kgo.Record {
	noise := make([]byte, 600_000)
	must(rand.Read(noise))
	records := []*kgo.Record{
		{Key: nil, Value: nil},
		{Key: []byte{}, Value: []byte{}},
		{Key: []byte("k"), Value: nil, Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")}}},
		{Key: nil, Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "", Value: nil}, {Key: "ünï", Value: []byte{0, 255}}}},
		{Key: []byte("large"), Value: noise},
		{Key: []byte("even"), Value: bytes.Repeat([]byte("abc"), 30_000)},
	}
	for n := range 100 {
		records = append(records, &kgo.Record{Key: []byte(strconv.Itoa(n)), Value: noise[:n]})
	}
	for n, record := range records {
		record.Timestamp = time.UnixMilli(int64(1_700_000_000_000 + n*7 - (n%4)*1000))
	}
	return records
}

func roundTrip(codec kgo.CompressionCodec) func(context.Context, *kadm.Client) {
	return func(ctx context.Context, adm *kadm.Client) {
		topic := newTopic(ctx, adm, 1, nil)
		producer := client(kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(20*time.Millisecond))
		defer producer.Close()
		sent := samples()
		ok(producer.ProduceSync(ctx, sent...).FirstErr())
		for n, record := range take(ctx, reader(topic, 1, kgo.NewOffset().AtStart()), len(sent)) {
			want := sent[n]
			same(record.Offset, int64(n), "offset")
			holds(bytes.Equal(record.Key, want.Key) && (record.Key == nil) == (want.Key == nil), "key")
			holds(bytes.Equal(record.Value, want.Value) && (record.Value == nil) == (want.Value == nil), "value")
			same(record.Timestamp.UnixMilli(), want.Timestamp.UnixMilli(), "timestamp")
			same(len(record.Headers), len(want.Headers), "headers")
			for h, header := range record.Headers {
				same(header.Key, want.Headers[h].Key, "header name")
				holds(bytes.Equal(header.Value, want.Headers[h].Value), "header value")
			}
		}
	}
}

func acknowledgements(acks kgo.Acks) func(context.Context, *kadm.Client) {
	return func(ctx context.Context, adm *kadm.Client) {
		topic := newTopic(ctx, adm, 1, nil)
		produce(ctx, topic, 0, 200, kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite())
		for n, record := range take(ctx, reader(topic, 1, kgo.NewOffset().AtStart()), 200) {
			same(string(record.Value), strconv.Itoa(n), "value")
		}
	}
}

func order(ctx context.Context, adm *kadm.Client) {
	topic := newTopic(ctx, adm, 3, nil)
	producer := client(kgo.DefaultProduceTopic(topic), kgo.ProducerBatchMaxBytes(600))
	defer producer.Close()
	for n := range 3000 {
		record := &kgo.Record{Key: []byte(strconv.Itoa(n % 31)), Value: []byte(strconv.Itoa(n))}
		producer.Produce(ctx, record, func(_ *kgo.Record, err error) { holds(err == nil, fmt.Sprint(err)) })
	}
	ok(producer.Flush(ctx))
	last := map[int32]int{}
	small := reader(topic, 3, kgo.NewOffset().AtStart(), kgo.FetchMaxBytes(9000), kgo.FetchMaxPartitionBytes(4000))
	for _, record := range take(ctx, small, 3000) {
		value := must(strconv.Atoi(string(record.Value)))
		before, seen := last[record.Partition]
		holds(!seen || before < value, "out of order")
		last[record.Partition] = value
	}
	same(len(last), 3, "partitions in use")
}

func tooLarge(ctx context.Context, adm *kadm.Client) {
	limit := "1000"
	topic := newTopic(ctx, adm, 1, map[string]*string{"max.message.bytes": &limit})
	noise := make([]byte, 5000)
	must(rand.Read(noise))
	producer := client(kgo.DefaultProduceTopic(topic))
	defer producer.Close()
	err := producer.ProduceSync(ctx, &kgo.Record{Value: noise}).FirstErr()
	holds(errors.Is(err, kerr.MessageTooLarge), fmt.Sprint(err))
	ok(producer.ProduceSync(ctx, &kgo.Record{Value: []byte("small")}).FirstErr())
}

func seekAndTimes(ctx context.Context, adm *kadm.Client) {
	topic := newTopic(ctx, adm, 1, nil)
	producer := client(kgo.DefaultProduceTopic(topic))
	defer producer.Close()
	for n := range 100 {
		ok(producer.ProduceSync(ctx, &kgo.Record{Value: []byte(strconv.Itoa(n)), Timestamp: time.UnixMilli(int64(1000 * (n + 1)))}).FirstErr())
	}
	after, found := must(adm.ListOffsetsAfterMilli(ctx, 10_500, topic)).Lookup(topic, 0)
	holds(found, "offset by time")
	same(after.Offset, int64(10), "offset by time")
	latest, _ := must(adm.ListEndOffsets(ctx, topic)).Lookup(topic, 0)
	same(latest.Offset, int64(100), "end")
	highest, _ := must(adm.ListMaxTimestampOffsets(ctx, topic)).Lookup(topic, 0)
	same(highest.Offset, int64(99), "max timestamp")
	same(take(ctx, reader(topic, 1, kgo.NewOffset().At(60)), 1)[0].Offset, int64(60), "seek")
	same(take(ctx, reader(topic, 1, kgo.NewOffset().AfterMilli(50_500)), 1)[0].Offset, int64(50), "start by time")
	same(take(ctx, reader(topic, 1, kgo.NewOffset().AtEnd().Relative(-3)), 1)[0].Offset, int64(97), "start before the end")
}

func longPoll(ctx context.Context, adm *kadm.Client) {
	topic := newTopic(ctx, adm, 1, nil)
	waiting := reader(topic, 1, kgo.NewOffset().AtStart(), kgo.FetchMaxWait(200*time.Second))
	brief, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	waiting.PollFetches(brief)
	cancel()
	produce(ctx, topic, 0, 1)
	same(string(take(ctx, waiting, 1)[0].Value), "0", "value")
}

func autoCreate(ctx context.Context, adm *kadm.Client) {
	topic := unique("auto")
	produce(ctx, topic, 0, 1, kgo.AllowAutoTopicCreation())
	same(len(must(adm.ListTopics(ctx, topic))[topic].Partitions), 4, "partitions")
	must(adm.DeleteTopics(ctx, topic))
	absent := unique("absent")
	producer := client(kgo.DefaultProduceTopic(absent), kgo.UnknownTopicRetries(1))
	defer producer.Close()
	err := producer.ProduceSync(ctx, &kgo.Record{Value: []byte("x")}).FirstErr()
	holds(errors.Is(err, kerr.UnknownTopicOrPartition), fmt.Sprint(err))
}

func deletedTopic(ctx context.Context, adm *kadm.Client) {
	topic := newTopic(ctx, adm, 1, nil)
	produce(ctx, topic, 0, 10)
	consumer := reader(topic, 1, kgo.NewOffset().AtStart(), kgo.KeepRetryableFetchErrors())
	var seen int
	for seen < 10 {
		seen += consumer.PollFetches(ctx).NumRecords()
	}
	must(adm.DeleteTopics(ctx, topic))
	var told error
	for told == nil && ctx.Err() == nil {
		fetches := consumer.PollFetches(ctx)
		same(fetches.NumRecords(), 0, "records of a deleted topic")
		fetches.EachError(func(_ string, _ int32, err error) { told = err })
	}
	consumer.Close()
	holds(errors.Is(told, kerr.UnknownTopicID) || errors.Is(told, kerr.UnknownTopicOrPartition), fmt.Sprint(told))
}

// ---- groups

type member struct {
	client *kgo.Client
	mutex  sync.Mutex
	owned  map[int32]bool
	lost   int
	conns  []net.Conn
	cut    bool
	seen   map[string]int
}

func join(group, topic string, options ...kgo.Opt) *member {
	m := &member{owned: map[int32]bool{}, seen: map[string]int{}}
	m.client = client(append(options,
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.HeartbeatInterval(300*time.Millisecond),
		kgo.FetchMaxWait(50*time.Millisecond), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
			m.mutex.Lock()
			defer m.mutex.Unlock()
			for _, partition := range assigned[topic] {
				m.owned[partition] = true
			}
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, revoked map[string][]int32) { m.drop(revoked[topic]) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { m.drop(lost[topic]) }),
		kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
			m.mutex.Lock()
			defer m.mutex.Unlock()
			if m.cut {
				return nil, errors.New("this member is dead")
			}
			conn, err := (&net.Dialer{}).DialContext(ctx, network, host)
			m.conns = append(m.conns, conn)
			return conn, err
		}))...)
	return m
}

func (m *member) drop(partitions []int32) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, partition := range partitions {
		delete(m.owned, partition)
		m.lost++
	}
}

func (m *member) owns() []int32 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	var partitions []int32
	for partition := range m.owned {
		partitions = append(partitions, partition)
	}
	slices.Sort(partitions)
	return partitions
}

func (m *member) poll(ctx context.Context) {
	brief, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
	defer cancel()
	m.client.PollFetches(brief).EachRecord(func(r *kgo.Record) { m.seen[fmt.Sprint(r.Partition, "-", r.Offset)]++ })
}

// vanish cuts every connection and allows no other: what a killed process looks like from outside.
func (m *member) vanish() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.cut = true
	for _, conn := range m.conns {
		if conn != nil {
			conn.Close()
		}
	}
}

func settle(ctx context.Context, members []*member, what string, sizes ...int) {
	for {
		var now []int
		var states []any
		for _, m := range members {
			m.poll(ctx)
			now = append(now, len(m.owns()))
			states = append(states, m.owns())
		}
		slices.Sort(now)
		if slices.Equal(now, sizes) {
			return
		}
		holds(ctx.Err() == nil, fmt.Sprint("waited in vain: ", what, states))
	}
}

func group(balancer kgo.GroupBalancer) func(context.Context, *kadm.Client) {
	return func(ctx context.Context, adm *kadm.Client) {
		topic, group := newTopic(ctx, adm, 6, nil), unique("group")
		first := join(group, topic, kgo.Balancers(balancer))
		settle(ctx, []*member{first}, "one owns all", 6)
		second := join(group, topic, kgo.Balancers(balancer))
		settle(ctx, []*member{first, second}, "two share", 3, 3)
		third := join(group, topic, kgo.Balancers(balancer))
		all := []*member{first, second, third}
		settle(ctx, all, "three share", 2, 2, 2)
		for partition := range 6 {
			produce(ctx, topic, int32(partition), 10)
		}
		for distinct := map[string]bool{}; len(distinct) < 60; {
			for _, m := range all {
				m.poll(ctx)
				for name := range m.seen {
					distinct[name] = true
				}
			}
			holds(ctx.Err() == nil, "not everything was read")
		}
		first.client.Close()
		before := second.lost + third.lost
		settle(ctx, []*member{second, third}, "the one that left has handed over", 3, 3)
		if balancer.IsCooperative() {
			same(second.lost+third.lost, before, "partitions given back")
		}
		second.client.Close()
		third.client.Close()
	}
}

func groupCrash(ctx context.Context, adm *kadm.Client) {
	topic, group := newTopic(ctx, adm, 4, nil), unique("group")
	doomed := join(group, topic, kgo.SessionTimeout(2*time.Second))
	survivor := join(group, topic, kgo.SessionTimeout(2*time.Second))
	settle(ctx, []*member{doomed, survivor}, "two share", 2, 2)
	doomed.vanish()
	settle(ctx, []*member{survivor}, "the survivor takes over", 4)
	survivor.client.Close()
}

func groupStatic(ctx context.Context, adm *kadm.Client) {
	topic, group := newTopic(ctx, adm, 4, nil), unique("group")
	steady := join(group, topic, kgo.InstanceID("steady"))
	restless := join(group, topic, kgo.InstanceID("restless"))
	settle(ctx, []*member{steady, restless}, "two share", 2, 2)
	before, lost := restless.owns(), steady.lost
	restless.client.Close()
	back := join(group, topic, kgo.InstanceID("restless"))
	settle(ctx, []*member{steady, back}, "it is back", 2, 2)
	same(fmt.Sprint(back.owns()), fmt.Sprint(before), "partitions of the static member")
	same(steady.lost, lost, "partitions the other lost")
	must(adm.LeaveGroup(ctx, kadm.LeaveGroup(group).InstanceIDs("restless")))
	back.vanish()
	settle(ctx, []*member{steady}, "the removed member's partitions move", 4)
	steady.client.Close()
}

func groupResume(ctx context.Context, adm *kadm.Client) {
	topic, group := newTopic(ctx, adm, 1, nil), unique("group")
	produce(ctx, topic, 0, 100)
	first := join(group, topic)
	records := read(ctx, first.client, 100)
	ok(first.client.CommitRecords(ctx, records[39]))
	first.client.Close()
	second := join(group, topic)
	defer second.client.Close()
	same(take(ctx, second.client, 1)[0].Offset, int64(40), "first record after the commit")
}

// ---- admin

func adminTopics(ctx context.Context, adm *kadm.Client) {
	topic, retention := unique("made"), "100000"
	created := must(adm.CreateTopic(ctx, 3, 1, map[string]*string{"retention.ms": &retention}, topic))
	same(created.NumPartitions, int32(3), "partitions")
	_, err := adm.CreateTopic(ctx, 3, 1, nil, topic)
	holds(errors.Is(err, kerr.TopicAlreadyExists), fmt.Sprint(err))
	ok(must(adm.UpdatePartitions(ctx, 5, topic))[topic].Err)
	holds(errors.Is(must(adm.UpdatePartitions(ctx, 2, topic))[topic].Err, kerr.InvalidPartitions), "fewer partitions")
	size := "5000"
	ok(must(adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &size}}, topic))[0].Err)
	for configured(ctx, adm, topic, "max.message.bytes") != "5000" {
		holds(ctx.Err() == nil, "the changed config is not seen")
	}
	produce(ctx, topic, 0, 30)
	var offsets kadm.Offsets
	offsets.AddOffset(topic, 0, 12, -1)
	deleted, _ := must(adm.DeleteRecords(ctx, offsets)).Lookup(topic, 0)
	same(deleted.LowWatermark, int64(12), "low watermark")
	ok(must(adm.DeleteTopics(ctx, topic))[topic].Err)
	holds(errors.Is(must(adm.DeleteTopics(ctx, topic))[topic].Err, kerr.UnknownTopicOrPartition), "deleted twice")
}

func adminGroups(ctx context.Context, adm *kadm.Client) {
	topic, group := newTopic(ctx, adm, 2, nil), unique("group")
	produce(ctx, topic, 0, 10)
	m := join(group, topic)
	settle(ctx, []*member{m}, "it owns all", 2)
	same(must(adm.DescribeGroups(ctx, group))[group].State, "Stable", "state")
	holds(errors.Is(must(adm.DeleteGroups(ctx, group))[group].Err, kerr.NonEmptyGroup), "a group with members was deleted")
	m.client.Close()
	var offsets kadm.Offsets
	offsets.AddOffset(topic, 0, 4, -1)
	ok(adm.CommitAllOffsets(ctx, group, offsets))
	committed, _ := must(adm.FetchOffsets(ctx, group)).Lookup(topic, 0)
	same(committed.At, int64(4), "committed")
	lag := must(adm.Lag(ctx, group))[group].Lag
	same(lag[topic][0].Lag, int64(6), "lag")
	_, listed := must(adm.ListGroups(ctx))[group]
	holds(listed, "listed")
	ok(must(adm.DeleteGroups(ctx, group))[group].Err)
	holds(errors.Is(must(adm.DeleteGroups(ctx, group))[group].Err, kerr.GroupIDNotFound), "deleted twice")
}

// ---- what the checks are made of

func client(options ...kgo.Opt) *kgo.Client {
	return must(kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.ConsiderMissingTopicDeletedAfter(time.Second)}, options...)...))
}

func reader(topic string, partitions int32, from kgo.Offset, options ...kgo.Opt) *kgo.Client {
	offsets := map[int32]kgo.Offset{}
	for partition := range partitions {
		offsets[partition] = from
	}
	return client(append([]kgo.Opt{
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}), kgo.FetchMaxWait(100 * time.Millisecond),
	}, options...)...)
}

// take reads this many records and closes the reader.
func take(ctx context.Context, reader *kgo.Client, count int) []*kgo.Record {
	defer reader.Close()
	return read(ctx, reader, count)
}

func read(ctx context.Context, reader *kgo.Client, count int) []*kgo.Record {
	var records []*kgo.Record
	for len(records) < count {
		fetches := reader.PollFetches(ctx)
		ok(fetches.Err())
		records = append(records, fetches.Records()...)
	}
	return records
}

func produce(ctx context.Context, topic string, partition int32, count int, options ...kgo.Opt) {
	producer := client(append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	defer producer.Close()
	var records []*kgo.Record
	for n := range count {
		records = append(records, &kgo.Record{Topic: topic, Partition: partition, Value: []byte(strconv.Itoa(n))})
	}
	ok(producer.ProduceSync(ctx, records...).FirstErr())
}

func newTopic(ctx context.Context, adm *kadm.Client, partitions int32, configs map[string]*string) string {
	name := unique("go")
	must(adm.CreateTopic(ctx, partitions, 1, configs, name))
	return name
}

func configured(ctx context.Context, adm *kadm.Client, topic, name string) string {
	for _, config := range must(must(adm.DescribeTopicConfigs(ctx, topic)).On(topic, nil)).Configs {
		if config.Key == name {
			return *config.Value
		}
	}
	panic(name + " is not described")
}

func unique(stem string) string {
	token := make([]byte, 6)
	must(rand.Read(token))
	return fmt.Sprintf("%s-%x", stem, token)
}

func must[T any](value T, err error) T {
	ok(err)
	return value
}

func ok(err error) {
	if err != nil {
		panic(err)
	}
}

func holds(condition bool, what string) {
	if !condition {
		panic(what)
	}
}

func same[T comparable](got, want T, what string) {
	if got != want {
		panic(fmt.Sprintf("%s: expected %v, got %v", what, want, got))
	}
}
