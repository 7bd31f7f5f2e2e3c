package main

import (
	"net"
	"runtime"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	batchBytes  = 16 << 10
	dialTimeout = 30 * time.Second
)

// batching is a connection that gathers small writes. The client writes each publish and each acknowledgement by itself,
// and on a machine that the server shares those system calls would be most of what a load costs: the figure would be the
// client's. A full batch is written by whoever filled it, anything less as soon as there is nothing else to do.
type batching struct {
	net.Conn
	guard   sync.Mutex
	pending []byte
	failed  error
	armed   bool
	wake    chan struct{}
	over    sync.Once
}

// dialBatching is for loads at full speed; where latency is measured nothing may be held back.
func dialBatching(network, address string) (net.Conn, error) {
	plain, err := amqp.DefaultDial(dialTimeout)(network, address)
	if err != nil {
		return nil, err
	}
	b := &batching{Conn: plain, pending: make([]byte, 0, 2*batchBytes), wake: make(chan struct{}, 1)}
	go b.writeRests()
	return b, nil
}

func (b *batching) Write(data []byte) (int, error) {
	b.guard.Lock()
	defer b.guard.Unlock()
	if b.failed != nil {
		return 0, b.failed
	}
	b.pending = append(b.pending, data...)
	if len(b.pending) >= batchBytes {
		return len(data), b.flush()
	}
	if !b.armed {
		b.armed = true
		select {
		case b.wake <- struct{}{}:
		default:
		}
	}
	return len(data), nil
}

func (b *batching) writeRests() {
	for range b.wake {
		runtime.Gosched() // others may have more to add
		b.guard.Lock()
		b.armed = false
		_ = b.flush() // the next Write tells
		b.guard.Unlock()
	}
}

// flush is called with the guard held.
func (b *batching) flush() error {
	if len(b.pending) > 0 && b.failed == nil {
		_, b.failed = b.Conn.Write(b.pending)
	}
	b.pending = b.pending[:0]
	return b.failed
}

func (b *batching) Close() error {
	b.over.Do(func() {
		b.guard.Lock()
		defer b.guard.Unlock()
		_ = b.flush()
		b.failed = net.ErrClosed
		close(b.wake)
	})
	return b.Conn.Close()
}
