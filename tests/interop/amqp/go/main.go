// Command amqp drives the server at the given address with rabbitmq/amqp091-go.
//
//	amqp AMQP_URL [CHECK...]
//
// Each check prints one line, "=> ok NAME" or "=> failed NAME: why". Every check uses queues and exchanges of its own.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const deadline = 30 * time.Second

var url string

type check struct {
	name string
	run  func(ctx context.Context)
}

func main() {
	url = os.Args[1]
	checks := []check{
		{"publish-with-confirms", publishWithConfirms},
		{"deferred-confirms", deferredConfirms},
		{"returns", returns},
		{"consume-and-ack", consumeAndAck},
		{"prefetch", prefetch},
		{"nack-and-requeue", nackAndRequeue},
		{"large-body", largeBody},
		{"headers-of-every-type", headersOfEveryType},
		{"exchange-to-exchange", exchangeToExchange},
		{"dead-letters", deadLetters},
		{"transaction", transaction},
		{"cancel-notification", cancelNotification},
		{"channel-error", channelError},
		{"connection-error", connectionError},
		{"stream", stream},
		{"many-channels", manyChannels},
	}
	for _, c := range checks {
		if len(os.Args) > 2 && !slices.Contains(os.Args[2:], c.name) {
			continue
		}
		if err := attempt(c.run); err != nil {
			fmt.Printf("=> failed %s: %v\n", c.name, strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Printf("=> ok %s\n", c.name)
		}
	}
}

func attempt(run func(context.Context)) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("%v", reason)
		}
	}()
	run(ctx)
	return nil
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func get[T any](value T, err error) T {
	must(err)
	return value
}

func equal(got, want any) {
	if !reflect.DeepEqual(got, want) {
		panic(fmt.Sprintf("got %v, want %v", got, want))
	}
}

func unique(stem string) string { return stem + "-" + strings.ToLower(rand.Text()[:12]) }

// open gives a channel on a connection of its own and the way to close both.
func open() (*amqp.Channel, func()) {
	connection := get(amqp.DialConfig(url, amqp.Config{Heartbeat: 5 * time.Second, Locale: "en_US"}))
	return get(connection.Channel()), func() { connection.Close() }
}

// exclusive declares a queue that goes with its connection.
func exclusive(ch *amqp.Channel, arguments amqp.Table) string {
	return get(ch.QueueDeclare("", false, false, true, false, arguments)).Name
}

func next(ctx context.Context, deliveries <-chan amqp.Delivery) amqp.Delivery {
	select {
	case delivery, ok := <-deliveries:
		if !ok {
			panic("the deliveries ended")
		}
		return delivery
	case <-ctx.Done():
		panic("no delivery")
	}
}

func publish(ctx context.Context, ch *amqp.Channel, exchange, key, body string) {
	must(ch.PublishWithContext(ctx, exchange, key, false, false, amqp.Publishing{Body: []byte(body), DeliveryMode: amqp.Persistent}))
}

func publishWithConfirms(ctx context.Context) {
	ch, done := open()
	defer done()
	name := unique("confirms")
	get(ch.QueueDeclare(name, true, false, false, false, nil))
	defer ch.QueueDelete(name, false, false, false)
	confirms := ch.NotifyPublish(make(chan amqp.Confirmation, 500))
	must(ch.Confirm(false))
	for number := range 500 {
		publish(ctx, ch, "", name, fmt.Sprint(number))
	}
	for number := range 500 {
		select {
		case confirm := <-confirms:
			equal(confirm, amqp.Confirmation{DeliveryTag: uint64(number + 1), Ack: true})
		case <-ctx.Done():
			panic("no confirm")
		}
	}
	equal(get(ch.QueueDeclarePassive(name, true, false, false, false, nil)).Messages, 500)
}

func deferredConfirms(ctx context.Context) {
	ch, done := open()
	defer done()
	must(ch.Confirm(false))
	full := exclusive(ch, amqp.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"})
	var results []bool
	for range 3 {
		confirm := get(ch.PublishWithDeferredConfirmWithContext(ctx, "", full, false, false, amqp.Publishing{Body: []byte("x")}))
		results = append(results, get(confirm.WaitContext(ctx)))
	}
	equal(results, []bool{true, false, false})
}

func returns(ctx context.Context) {
	ch, done := open()
	defer done()
	returned := ch.NotifyReturn(make(chan amqp.Return, 1))
	key := unique("nowhere")
	must(ch.PublishWithContext(ctx, "", key, true, false, amqp.Publishing{Body: []byte("x"), MessageId: "m"}))
	select {
	case message := <-returned:
		equal(
			[]any{message.ReplyCode, message.ReplyText, message.RoutingKey, string(message.Body), message.MessageId},
			[]any{uint16(312), "NO_ROUTE", key, "x", "m"},
		)
	case <-ctx.Done():
		panic("not returned")
	}
}

func consumeAndAck(ctx context.Context) {
	ch, done := open()
	defer done()
	queue := exclusive(ch, nil)
	deliveries := get(ch.ConsumeWithContext(ctx, queue, "", false, false, false, false, nil))
	for number := range 100 {
		publish(ctx, ch, "", queue, fmt.Sprint(number))
	}
	var last amqp.Delivery
	for number := range 100 {
		last = next(ctx, deliveries)
		equal(string(last.Body), fmt.Sprint(number))
		if number%10 != 9 {
			continue
		}
		must(last.Ack(true))
	}
	equal(get(ch.QueuePurge(queue, false)), 0)
}

func prefetch(ctx context.Context) {
	ch, done := open()
	defer done()
	queue := exclusive(ch, nil)
	for number := range 10 {
		publish(ctx, ch, "", queue, fmt.Sprint(number))
	}
	must(ch.Qos(3, 0, false))
	deliveries := get(ch.Consume(queue, "", false, false, false, false, nil))
	var held []amqp.Delivery
	for range 3 {
		held = append(held, next(ctx, deliveries))
	}
	equal(get(ch.QueueDeclarePassive(queue, false, false, true, false, nil)).Messages, 7)
	must(held[0].Ack(false))
	equal(string(next(ctx, deliveries).Body), "3")
}

func nackAndRequeue(ctx context.Context) {
	ch, done := open()
	defer done()
	queue := exclusive(ch, nil)
	for number := range 3 {
		publish(ctx, ch, "", queue, fmt.Sprint(number))
	}
	first, _ := get2(ch.Get(queue, false))
	second, _ := get2(ch.Get(queue, false))
	must(second.Nack(false, true))
	must(first.Reject(true))
	for number := range 3 {
		again, ok := get2(ch.Get(queue, true))
		equal([]any{ok, string(again.Body), again.Redelivered}, []any{true, fmt.Sprint(number), number < 2})
	}
}

func get2[A, B any](a A, b B, err error) (A, B) {
	must(err)
	return a, b
}

func largeBody(ctx context.Context) {
	ch, done := open()
	defer done()
	queue := exclusive(ch, nil)
	body := make([]byte, 3_000_000)
	get(rand.Read(body))
	must(ch.PublishWithContext(ctx, "", queue, false, false, amqp.Publishing{Body: body}))
	deliveries := get(ch.Consume(queue, "", true, false, false, false, nil))
	if !bytes.Equal(next(ctx, deliveries).Body, body) {
		panic("another body")
	}
}

func headersOfEveryType(ctx context.Context) {
	ch, done := open()
	defer done()
	queue := exclusive(ch, nil)
	headers := amqp.Table{
		"nil":     nil,
		"bool":    true,
		"int8":    int8(-8),
		"byte":    byte(200),
		"int16":   int16(-300),
		"uint16":  uint16(60_000),
		"int32":   int32(-70_000),
		"uint32":  uint32(4_000_000_000),
		"int64":   int64(1) << 60,
		"float32": float32(0.5),
		"float64": 0.1,
		"decimal": amqp.Decimal{Scale: 2, Value: 12345},
		"string":  "ünïcode",
		"bytes":   []byte{0, 255},
		"time":    time.Unix(1_700_000_000, 0),
		"array":   []any{int32(1), "two", []any{nil}},
		"table":   amqp.Table{"nested": amqp.Table{"deeper": false}},
	}
	must(ch.PublishWithContext(ctx, "", queue, false, false, amqp.Publishing{Headers: headers}))
	deliveries := get(ch.Consume(queue, "", true, false, false, false, nil))
	equal(next(ctx, deliveries).Headers, headers)
}

func exchangeToExchange(ctx context.Context) {
	ch, done := open()
	defer done()
	source, destination, queue := unique("source"), unique("destination"), exclusive(ch, nil)
	must(ch.ExchangeDeclare(source, "topic", false, true, false, false, nil))
	must(ch.ExchangeDeclare(destination, "headers", false, true, false, false, nil))
	must(ch.ExchangeBind(destination, "a.#", source, false, nil))
	must(ch.QueueBind(queue, "", destination, false, amqp.Table{"x-match": "any", "good": true}))
	for number, key := range []string{"a.b", "b", "a"} {
		must(ch.PublishWithContext(ctx, source, key, false, false, amqp.Publishing{
			Headers: amqp.Table{"good": true, "n": int32(number)}, Body: []byte(key),
		}))
	}
	deliveries := get(ch.Consume(queue, "", true, false, false, false, nil))
	equal(string(next(ctx, deliveries).Body), "a.b")
	equal(string(next(ctx, deliveries).Body), "a")
	must(ch.ExchangeUnbind(destination, "a.#", source, false, nil))
}

func deadLetters(ctx context.Context) {
	ch, done := open()
	defer done()
	dead := exclusive(ch, nil)
	queue := exclusive(ch, amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead, "x-message-ttl": int32(50)})
	publish(ctx, ch, "", queue, "x")
	letter := next(ctx, get(ch.Consume(dead, "", true, false, false, false, nil)))
	death := letter.Headers["x-death"].([]any)[0].(amqp.Table)
	equal([]any{death["reason"], death["queue"], death["count"]}, []any{"expired", queue, int64(1)})
}

func transaction(ctx context.Context) {
	ch, done := open()
	defer done()
	queue := exclusive(ch, nil)
	must(ch.Tx())
	publish(ctx, ch, "", queue, "rolled back")
	must(ch.TxRollback())
	publish(ctx, ch, "", queue, "committed")
	must(ch.TxCommit())
	message, _ := get2(ch.Get(queue, true))
	equal([]any{string(message.Body), message.MessageCount}, []any{"committed", uint32(0)})
}

func cancelNotification(ctx context.Context) {
	ch, done := open()
	defer done()
	name := unique("cancelled")
	get(ch.QueueDeclare(name, false, false, false, false, nil))
	cancelled := ch.NotifyCancel(make(chan string, 1))
	deliveries := get(ch.Consume(name, "mine", false, false, false, false, nil))
	other, close := open()
	defer close()
	get(other.QueueDelete(name, false, false, false))
	select {
	case tag := <-cancelled:
		equal(tag, "mine")
	case <-ctx.Done():
		panic("not cancelled")
	}
	if _, open := <-deliveries; open {
		panic("the deliveries go on")
	}
}

func channelError(ctx context.Context) {
	ch, done := open()
	defer done()
	name := unique("nothing")
	_, err := ch.QueueDeclarePassive(name, false, false, false, false, nil)
	var reason *amqp.Error
	if !errors.As(err, &reason) {
		panic(fmt.Sprintf("no error: %v", err))
	}
	equal([]any{reason.Code, reason.Reason, reason.Server}, []any{404, "NOT_FOUND - no queue '" + name + "' in vhost '/'", true})
}

func connectionError(ctx context.Context) {
	ch, done := open()
	defer done()
	err := ch.Qos(0, 8, false)
	var reason *amqp.Error
	if !errors.As(err, &reason) {
		panic(fmt.Sprintf("no error: %v", err))
	}
	equal([]any{reason.Code, reason.Reason}, []any{540, "NOT_IMPLEMENTED - prefetch_size!=0 (8)"})
}

func stream(ctx context.Context) {
	ch, done := open()
	defer done()
	name := unique("stream")
	get(ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "stream"}))
	defer ch.QueueDelete(name, false, false, false)
	must(ch.Confirm(false))
	for number := range 20 {
		confirm := get(ch.PublishWithDeferredConfirmWithContext(ctx, "", name, false, false, amqp.Publishing{Body: []byte(fmt.Sprint(number))}))
		get(confirm.WaitContext(ctx))
	}
	must(ch.Qos(5, 0, false))
	deliveries := get(ch.Consume(name, "", false, false, false, false, amqp.Table{"x-stream-offset": int64(4)}))
	for number := 4; number < 20; number++ {
		delivery := next(ctx, deliveries)
		equal([]any{string(delivery.Body), delivery.Headers["x-stream-offset"]}, []any{fmt.Sprint(number), int64(number)})
		must(delivery.Ack(false))
	}
}

func manyChannels(ctx context.Context) {
	connection := get(amqp.Dial(url))
	defer connection.Close()
	queue := exclusive(get(connection.Channel()), nil)
	finished := make(chan error, 20)
	for worker := range 20 {
		go func() {
			finished <- attempt(func(ctx context.Context) {
				ch := get(connection.Channel())
				must(ch.Confirm(false))
				for number := range 20 {
					confirm := get(ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, false, false, amqp.Publishing{
						Body: []byte(fmt.Sprint(worker*20 + number)),
					}))
					get(confirm.WaitContext(ctx))
				}
				must(ch.Close())
			})
		}()
	}
	for range 20 {
		must(<-finished)
	}
	deliveries := get(get(connection.Channel()).Consume(queue, "", true, false, false, false, nil))
	seen := map[string]bool{}
	for range 400 {
		seen[string(next(ctx, deliveries).Body)] = true
	}
	equal(len(seen), 400)
}
