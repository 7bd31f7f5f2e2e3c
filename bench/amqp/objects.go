package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// inspect asks again and again, each time on a new connection, until the queue has what it must have.
func inspect(arguments []string) (any, error) {
	flags := flag.NewFlagSet("inspect", flag.ExitOnError)
	url := flags.String("url", "amqp://guest:guest@127.0.0.1:5672/", "the server")
	name := flags.String("queue", "bench", "the queue")
	expected := flags.Int("expect", 0, "how many messages it must have; -1: any")
	seconds := flags.Float64("deadline", 60, "seconds to wait for that")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	end := time.Now().Add(time.Duration(*seconds * float64(time.Second)))
	for {
		there, err := messages(*url, *name)
		if err == nil && (there == *expected || *expected < 0) {
			return map[string]int{"messages": there}, nil
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("%s has %d messages, not %d: %v", *name, there, *expected, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func messages(url, name string) (int, error) {
	connection, channel, err := open(url)
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	queue, err := channel.QueueDeclarePassive(name, true, false, false, false, nil)
	return queue.Messages, err
}

// declare declares queues from several connections at once, each waiting for every answer.
func declare(arguments []string) (any, error) {
	flags := flag.NewFlagSet("declare", flag.ExitOnError)
	url := flags.String("url", "amqp://guest:guest@127.0.0.1:5672/", "the server")
	name := flags.String("queue", "bench", "what the queues' names begin with")
	count := flags.Int("queues", 100, "how many queues")
	kind := flags.String("type", "classic", "classic or quorum")
	among := flags.Int("connections", 4, "how many connections share the work")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	began := time.Now()
	err := together(*among, func(number int) error {
		connection, channel, err := open(*url)
		if err != nil {
			return err
		}
		defer connection.Close()
		for index := number; index < *count; index += *among {
			queue := fmt.Sprintf("%s-%d", *name, index)
			if _, err := channel.QueueDeclare(queue, true, false, false, false, queueArguments(*kind)); err != nil {
				return fmt.Errorf("declaring %s: %w", queue, err)
			}
		}
		return nil
	})
	took := time.Since(began).Seconds()
	return map[string]float64{"queues": float64(*count), "per_s": float64(*count) / took, "seconds": took}, err
}

// hold opens connections with a channel on each, says so in a line of its own, and closes them when its input ends.
func hold(arguments []string) (any, error) {
	flags := flag.NewFlagSet("hold", flag.ExitOnError)
	url := flags.String("url", "amqp://guest:guest@127.0.0.1:5672/", "the server")
	count := flags.Int("connections", 1000, "how many")
	among := flags.Int("openers", 4, "how many are being opened at the same time")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	connections := make([]*amqp.Connection, *count)
	channels := make([]*amqp.Channel, *count)
	began := time.Now()
	err := together(*among, func(number int) (err error) {
		for index := number; index < *count && err == nil; index += *among {
			connections[index], channels[index], err = open(*url)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	took := time.Since(began).Seconds()
	say(map[string]float64{"connections": float64(*count), "per_s": float64(*count) / took})
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return nil, err
	}
	for _, channel := range channels {
		if channel.IsClosed() {
			return nil, fmt.Errorf("a connection that should have been kept was closed")
		}
	}
	return map[string]float64{"kept": float64(*count)}, together(*among, func(number int) error {
		for index := number; index < *count; index += *among {
			if err := connections[index].Close(); err != nil {
				return err
			}
		}
		return nil
	})
}

// together runs a task on so many goroutines and gives the first error of them.
func together(among int, task func(number int) error) error {
	failures, waiting := make([]error, among), sync.WaitGroup{}
	for number := range among {
		waiting.Add(1)
		go func() {
			defer waiting.Done()
			failures[number] = task(number)
		}()
	}
	waiting.Wait()
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}
