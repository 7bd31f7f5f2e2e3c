package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const confirmDeadline = 120 * time.Second

// producer publishes on a connection of its own and keeps at most `confirm` publishes unconfirmed.
type producer struct {
	plan       *plan
	number     int
	connection *amqp.Connection
	channel    *amqp.Channel
	exchange   string
	keys       []string // taken in turn

	published atomic.Uint64
	confirmed atomic.Uint64
	moved     chan struct{} // something was confirmed since this was last emptied
	lost      chan error    // the connection ended, or a publish was refused
	sentAt    []int64       // by sequence number, modulo the window
	confirms  latencies
}

func newProducer(p *plan, number int) (*producer, error) {
	connection, channel, err := p.open()
	if err != nil {
		return nil, err
	}
	maker := &producer{plan: p, number: number, connection: connection, channel: channel}
	maker.moved, maker.lost = make(chan struct{}, 1), make(chan error, 4)
	if p.bindings == 0 {
		maker.keys = p.shares(number, p.producers)
	} else {
		maker.exchange = exchangeName
		for key := number; key < p.bindings; key += p.producers {
			maker.keys = append(maker.keys, routingKey(key))
		}
	}
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	go func() {
		if reason := <-closed; reason != nil {
			maker.lost <- fmt.Errorf("producer %d: %w", number, reason)
		}
	}()
	if p.confirm > 0 {
		if err := channel.Confirm(false); err != nil {
			connection.Close()
			return nil, fmt.Errorf("confirm.select: %w", err)
		}
		maker.sentAt = make([]int64, p.confirm)
		go maker.readConfirms(channel.NotifyPublish(make(chan amqp.Confirmation, p.confirm)))
	}
	return maker, nil
}

func (m *producer) readConfirms(confirms <-chan amqp.Confirmation) {
	for confirmation := range confirms {
		if !confirmation.Ack {
			m.lost <- fmt.Errorf("producer %d: message %d was refused", m.number, confirmation.DeliveryTag)
		}
		if m.plan.rate > 0 {
			m.confirms.add(now() - m.sentAt[(confirmation.DeliveryTag-1)%uint64(len(m.sentAt))])
		}
		m.confirmed.Store(confirmation.DeliveryTag)
		select {
		case m.moved <- struct{}{}:
		default:
		}
	}
}

// publish goes on until `until`, or until `count` messages are sent if that is not 0.
func (m *producer) publish(began time.Time, until time.Time, count uint64) error {
	body := make([]byte, m.plan.size)
	binary.BigEndian.PutUint32(body[8:], uint32(m.number))
	message := amqp.Publishing{Body: body}
	if !m.plan.transient {
		message.DeliveryMode = amqp.Persistent
	}
	var pace *pacer
	if m.plan.rate > 0 {
		pace = newPacer(began, m.plan.rate/float64(m.plan.producers), m.number, m.plan.producers)
		defer pace.end()
	}
	for sequence := uint64(0); count == 0 || sequence < count; sequence++ {
		if count == 0 && (pace != nil || sequence%16 == 0) && time.Now().After(until) {
			return nil
		}
		if err := m.awaitConfirms(sequence, uint64(m.plan.confirm)); err != nil {
			return err
		}
		if pace != nil {
			pace.wait(sequence)
		}
		at := now()
		binary.BigEndian.PutUint64(body, uint64(at))
		binary.BigEndian.PutUint64(body[12:], sequence)
		if m.sentAt != nil {
			m.sentAt[sequence%uint64(len(m.sentAt))] = at
		}
		key := m.keys[sequence%uint64(len(m.keys))]
		if err := m.channel.PublishWithContext(context.Background(), m.exchange, key, false, false, message); err != nil {
			return fmt.Errorf("producer %d: %w", m.number, err)
		}
		m.published.Store(sequence + 1)
	}
	return nil
}

// awaitConfirms returns when fewer than `window` of `sent` messages are unconfirmed; a window of 0 means no confirms.
func (m *producer) awaitConfirms(sent, window uint64) error {
	if window == 0 {
		return nil
	}
	for sent-m.confirmed.Load() >= window {
		select {
		case <-m.moved:
		case err := <-m.lost:
			return err
		case <-time.After(confirmDeadline):
			return fmt.Errorf("producer %d: %d messages not confirmed for %s", m.number, sent-m.confirmed.Load(), confirmDeadline)
		}
	}
	return nil
}

// finish waits until everything is confirmed, or without confirms until the server has answered after the last publish.
func (m *producer) finish() error {
	if m.plan.confirm > 0 {
		if err := m.awaitConfirms(m.published.Load(), 1); err != nil {
			return err
		}
	}
	if err := m.channel.Close(); err != nil && !errors.Is(err, amqp.ErrClosed) {
		return fmt.Errorf("producer %d: %w", m.number, err)
	}
	select {
	case err := <-m.lost:
		return err
	default:
		return m.connection.Close()
	}
}
