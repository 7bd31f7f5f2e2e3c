// A load generator for AMQP 0-9-1 servers, on RabbitMQ's own Go client.
//
//	amqpload load     producers and consumers at work on queues, every message accounted for
//	amqpload inspect  waits until a queue is there with as many messages as it must have
//	amqpload declare  declares many queues
//	amqpload hold     opens many connections and keeps them until its input ends
//
// Each prints one JSON object on its last line; a message on the standard error and exit status 1 if the server did
// anything but what it must. `amqpload VERB -help` lists the options.
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"runtime/debug"

	amqp "github.com/rabbitmq/amqp091-go"
)

func main() {
	verbs := map[string]func([]string) (any, error){"load": runLoad, "inspect": inspect, "declare": declare, "hold": hold}
	if len(os.Args) < 2 || verbs[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "amqpload load|inspect|declare|hold")
		os.Exit(2)
	}
	debug.SetGCPercent(400) // the machine's memory is not what is measured; its processors are
	result, err := verbs[os.Args[1]](os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	say(result)
}

func say(result any) {
	line, err := json.Marshal(result)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

func open(url string) (*amqp.Connection, *amqp.Channel, error) {
	return openWith(url, nil)
}

// openWith takes a way to make the network connection; nil is the client's own.
func openWith(url string, dial func(network, address string) (net.Conn, error)) (*amqp.Connection, *amqp.Channel, error) {
	connection, err := amqp.DialConfig(url, amqp.Config{Locale: "en_US", Dial: dial})
	if err != nil {
		return nil, nil, fmt.Errorf("connecting: %w", err)
	}
	channel, err := connection.Channel()
	if err != nil {
		connection.Close()
		return nil, nil, fmt.Errorf("opening a channel: %w", err)
	}
	return connection, channel, nil
}

// What a queue's type asks for: quorum and stream queues are durable whatever the rest says.
func queueArguments(kind string) amqp.Table {
	if kind == "" || kind == "classic" {
		return nil
	}
	return amqp.Table{"x-queue-type": kind}
}
