package main

import (
	"flag"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// plan is what a load is to do.
type plan struct {
	url       string
	name      string // of the queue; with several of them, what their names begin with
	queues    int
	kind      string
	transient bool // messages and queues
	producers int
	consumers int
	size      int
	confirm   int // how many publishes may be unconfirmed, for each producer; 0: no confirms
	prefetch  int
	autoAck   bool
	seconds   float64
	warm      float64 // seconds before what is measured begins
	count     int     // messages in all; 0: as many as the time allows
	rate      float64 // messages a second in all; 0: as many as possible
	leave     bool    // what is in the queues at the end stays there
	bindings  int     // of a topic exchange in front of the queues; 0: the default exchange
	bound     bool    // they are there already
	plain     bool    // the client as it comes, without gathering writes
}

const (
	smallest     = 24 // bytes of a body: time, producer, sequence number
	exchangeName = "bench.topic"
	binders      = 8 // connections that make bindings
)

func readPlan(arguments []string) (*plan, error) {
	p := &plan{}
	flags := flag.NewFlagSet("load", flag.ExitOnError)
	flags.StringVar(&p.url, "url", "amqp://guest:guest@127.0.0.1:5672/", "the server")
	flags.StringVar(&p.name, "queue", "bench", "the queue's name, or what the queues' names begin with")
	flags.IntVar(&p.queues, "queues", 1, "how many queues")
	flags.StringVar(&p.kind, "type", "classic", "of the queues: classic or quorum")
	flags.BoolVar(&p.transient, "transient", false, "messages not persistent and queues not durable")
	flags.IntVar(&p.producers, "producers", 1, "each with a connection of its own")
	flags.IntVar(&p.consumers, "consumers", 1, "each with a connection of its own")
	flags.IntVar(&p.size, "size", 100, "bytes of a body")
	flags.IntVar(&p.confirm, "confirm", 0, "unconfirmed publishes a producer may have; 0: no confirms")
	flags.IntVar(&p.prefetch, "prefetch", 1000, "of each consumer; 0: no limit")
	flags.BoolVar(&p.autoAck, "auto-ack", false, "consumers do not acknowledge")
	flags.Float64Var(&p.seconds, "seconds", 5, "of publishing")
	flags.Float64Var(&p.warm, "warm", 0, "seconds of publishing before those")
	flags.IntVar(&p.count, "count", 0, "messages in all, in place of a time")
	flags.Float64Var(&p.rate, "rate", 0, "messages a second in all; 0: as many as possible")
	flags.BoolVar(&p.leave, "leave", false, "do not wait for the queues to be empty at the end")
	flags.IntVar(&p.bindings, "bindings", 0, "publish through a topic exchange with this many bindings")
	flags.BoolVar(&p.plain, "plain", false, "write each publish and each acknowledgement by itself, as with -rate")
	flags.BoolVar(&p.bound, "bound", false, "the bindings are there already")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	if p.size < smallest {
		return nil, fmt.Errorf("a body has at least %d bytes: time, producer and number are in it", smallest)
	}
	if p.bindings != 0 && p.bindings < p.queues {
		return nil, fmt.Errorf("fewer bindings than queues")
	}
	return p, nil
}

// open connects a producer or a consumer.
func (p *plan) open() (*amqp.Connection, *amqp.Channel, error) {
	if p.rate > 0 || p.plain {
		return openWith(p.url, nil)
	}
	return openWith(p.url, dialBatching)
}

func (p *plan) queueName(index int) string {
	if p.queues == 1 {
		return p.name
	}
	return fmt.Sprintf("%s-%d", p.name, index)
}

// shares gives the queues of one of `among` producers or consumers: one each when there are enough of them.
func (p *plan) shares(index, among int) []string {
	if among >= p.queues {
		return []string{p.queueName(index % p.queues)}
	}
	var names []string
	for queue := index; queue < p.queues; queue += among {
		names = append(names, p.queueName(queue))
	}
	return names
}

// bindingKey(n) is bound to queue n % queues, and nothing else matches routingKey(n).
func bindingKey(number int) string { return fmt.Sprintf("device.%d.*", number) }
func routingKey(number int) string { return fmt.Sprintf("device.%d.temperature", number) }

// prepare declares the queues, and the exchange and its bindings if there are to be any. It returns how long the
// bindings took.
func (p *plan) prepare() (time.Duration, error) {
	connection, channel, err := open(p.url)
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	for index := range p.queues {
		if _, err := channel.QueueDeclare(p.queueName(index), !p.transient, false, false, false, queueArguments(p.kind)); err != nil {
			return 0, fmt.Errorf("declaring %s: %w", p.queueName(index), err)
		}
	}
	if p.bindings == 0 || p.bound {
		return 0, nil
	}
	if err := channel.ExchangeDeclare(exchangeName, "topic", !p.transient, false, false, false, nil); err != nil {
		return 0, fmt.Errorf("declaring the exchange: %w", err)
	}
	return p.bind()
}

// bind sends the bindings on several connections, without waiting for each; the last of each connection is waited for,
// and so all of them are.
func (p *plan) bind() (time.Duration, error) {
	began := time.Now()
	err := together(binders, func(part int) error {
		connection, channel, err := open(p.url)
		if err != nil {
			return err
		}
		defer connection.Close()
		for number := part; number < p.bindings; number += binders {
			last := number+binders >= p.bindings
			if err := channel.QueueBind(p.queueName(number%p.queues), bindingKey(number), exchangeName, !last, nil); err != nil {
				return fmt.Errorf("binding %d: %w", number, err)
			}
		}
		return nil
	})
	return time.Since(began), err
}
