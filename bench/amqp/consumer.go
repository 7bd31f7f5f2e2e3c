package main

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// consumer takes messages on a connection of its own. It keeps how many came from each producer and the sum of their
// sequence numbers: two equal pairs mean that nothing is missing and nothing came twice.
type consumer struct {
	plan       *plan
	connection *amqp.Connection
	channel    *amqp.Channel
	tags       []string
	alone      bool // no other consumer on its queues: what one producer sent to a queue must come in order
	received   atomic.Uint64
	lastAt     atomic.Int64
	lost       chan error
	closed     chan *amqp.Error
	done       chan struct{}

	counts []uint64 // by producer; from here on only touched by its goroutine until done
	sums   []uint64
	delays latencies
}

func newConsumer(p *plan, number int) (*consumer, error) {
	connection, channel, err := p.open()
	if err != nil {
		return nil, err
	}
	taker := &consumer{plan: p, connection: connection, channel: channel, alone: p.consumers <= p.queues}
	taker.lost, taker.done = make(chan error, 4), make(chan struct{})
	taker.counts, taker.sums = make([]uint64, p.producers), make([]uint64, p.producers)
	if !p.autoAck && p.prefetch > 0 {
		if err := channel.Qos(p.prefetch, 0, false); err != nil {
			return nil, fmt.Errorf("basic.qos: %w", err)
		}
	}
	names := p.shares(number, p.consumers)
	streams := make([]<-chan amqp.Delivery, len(names))
	for index, name := range names {
		tag := fmt.Sprintf("c%d-%d", number, index)
		taker.tags = append(taker.tags, tag)
		streams[index], err = channel.Consume(name, tag, p.autoAck, false, false, false, nil)
		if err != nil {
			return nil, fmt.Errorf("consuming %s: %w", name, err)
		}
	}
	taker.closed = channel.NotifyClose(make(chan *amqp.Error, 1))
	go taker.take(merge(streams))
	return taker, nil
}

// reason says why deliveries ended that should not have.
func (t *consumer) reason() error {
	select {
	case err := <-t.lost:
		return err
	case closed := <-t.closed:
		return fmt.Errorf("a consumer's deliveries ended: %v", closed)
	case <-time.After(time.Second):
		return fmt.Errorf("a consumer was cancelled")
	}
}

// merge keeps one goroutine as the only reader of what is counted.
func merge(streams []<-chan amqp.Delivery) <-chan amqp.Delivery {
	if len(streams) == 1 {
		return streams[0]
	}
	all, open := make(chan amqp.Delivery, 256), atomic.Int32{}
	open.Store(int32(len(streams)))
	for _, stream := range streams {
		go func() {
			for delivery := range stream {
				all <- delivery
			}
			if open.Add(-1) == 0 {
				close(all)
			}
		}()
	}
	return all
}

func (t *consumer) take(deliveries <-chan amqp.Delivery) {
	defer close(t.done)
	next := make(map[string]uint64) // lowest sequence number that may come next, by queue and producer
	timed := t.plan.rate > 0
	for delivery := range deliveries {
		at := now()
		if err := t.check(&delivery, next); err != nil {
			t.lost <- err
			return
		}
		if timed {
			t.delays.add(at - int64(binary.BigEndian.Uint64(delivery.Body)))
		}
		if !t.plan.autoAck {
			if err := delivery.Ack(false); err != nil {
				t.lost <- fmt.Errorf("acknowledging: %w", err)
				return
			}
		}
		t.lastAt.Store(at)
		t.received.Add(1)
	}
}

func (t *consumer) check(delivery *amqp.Delivery, next map[string]uint64) error {
	body := delivery.Body
	if len(body) != t.plan.size {
		return fmt.Errorf("a message of %d bytes came where %d were sent", len(body), t.plan.size)
	}
	if t.plan.leave {
		return nil // the queue had messages of an earlier load
	}
	if delivery.Redelivered {
		return fmt.Errorf("a message came again")
	}
	maker, sequence := binary.BigEndian.Uint32(body[8:]), binary.BigEndian.Uint64(body[12:])
	if int(maker) >= len(t.counts) {
		return fmt.Errorf("a message came that was not sent: producer %d", maker)
	}
	if t.alone && len(t.counts) == 1 && t.plan.queues == 1 {
		if sequence != t.counts[0] {
			return fmt.Errorf("message %d came where %d was due", sequence, t.counts[0])
		}
	} else if t.alone && t.plan.bindings == 0 {
		key := delivery.RoutingKey + string(body[8:12])
		if sequence < next[key] {
			return fmt.Errorf("message %d of producer %d came after a later one", sequence, maker)
		}
		next[key] = sequence + 1
	}
	t.counts[maker]++
	t.sums[maker] += sequence
	return nil
}

// finish cancels, takes what is still on the way, and closes the channel, which the server answers after the
// acknowledgements before it.
func (t *consumer) finish() error {
	for _, tag := range t.tags {
		if err := t.channel.Cancel(tag, false); err != nil {
			return fmt.Errorf("cancelling a consumer: %w", err)
		}
	}
	<-t.done
	select {
	case err := <-t.lost:
		return err
	default:
	}
	if err := t.channel.Close(); err != nil {
		return fmt.Errorf("a consumer's channel: %w", err)
	}
	return t.connection.Close()
}
