package main

import (
	"fmt"
	"sync"
	"time"
)

const drainDeadline = 600 * time.Second

// outcome is what a load brought. Everything that was published was confirmed if confirms were asked for, and delivered
// and acknowledged exactly once unless it was to be left.
type outcome struct {
	Published   uint64             `json:"published"`
	Received    uint64             `json:"received"`
	ThroughRate float64            `json:"through_per_s"`  // published and received, from the first publish to the last delivery
	SentRate    float64            `json:"sent_per_s"`     // while producers were at work, after the warm-up
	TakenRate   float64            `json:"received_per_s"` // in the same time
	Delivery    map[string]float64 `json:"delivery,omitempty"`
	Confirm     map[string]float64 `json:"confirm,omitempty"`
	BindSeconds float64            `json:"bind_s,omitempty"`
	ClientCPU   float64            `json:"client_cpu_s"`
	Seconds     float64            `json:"seconds"`
}

// counts of messages at a moment.
type sample struct {
	at          time.Time
	sent, taken uint64
}

type load struct {
	plan      *plan
	producers []*producer
	consumers []*consumer
}

func runLoad(arguments []string) (any, error) {
	p, err := readPlan(arguments)
	if err != nil {
		return nil, err
	}
	bound, err := p.prepare()
	if err != nil {
		return nil, err
	}
	l := &load{plan: p}
	for number := range p.consumers {
		taker, err := newConsumer(p, number)
		if err != nil {
			return nil, err
		}
		l.consumers = append(l.consumers, taker)
	}
	for number := range p.producers {
		maker, err := newProducer(p, number)
		if err != nil {
			return nil, err
		}
		l.producers = append(l.producers, maker)
	}
	result, err := l.run()
	if err != nil {
		return nil, err
	}
	result.BindSeconds = bound.Seconds()
	result.ClientCPU = cpuSeconds()
	return result, nil
}

func (l *load) run() (*outcome, error) {
	p := l.plan
	began := time.Now()
	measured := began.Add(time.Duration(p.warm * float64(time.Second)))
	until := measured.Add(time.Duration(p.seconds * float64(time.Second)))
	ended := make(chan error, len(l.producers))
	for number, maker := range l.producers {
		go func() { ended <- maker.publish(began, until, l.portion(number)) }()
	}
	first := make(chan sample, 1)
	go func() {
		time.Sleep(time.Until(measured))
		first <- l.sample()
	}()
	if len(l.producers) == 0 {
		time.Sleep(time.Until(until)) // draining alone
	}
	for range l.producers {
		if err := l.await(ended); err != nil {
			return nil, err
		}
	}
	second := l.sample()
	start := <-first
	if err := l.settle(); err != nil {
		return nil, err
	}
	result := l.summary(start, second)
	last := time.Now()
	if len(l.consumers) > 0 && !p.leave {
		last = epoch.Add(time.Duration(l.lastDelivery()))
	}
	result.Seconds = last.Sub(began).Seconds()
	result.ThroughRate = float64(result.Published) / result.Seconds
	return result, nil
}

// portion of a fixed count; 0 when the time decides.
func (l *load) portion(number int) uint64 {
	whole, makers := l.plan.count, l.plan.producers
	share := whole / makers
	if number < whole%makers {
		share++
	}
	return uint64(share)
}

// await returns when a producer has ended, or when a consumer has found something wrong.
func (l *load) await(ended <-chan error) error {
	for {
		select {
		case err := <-ended:
			return err
		case <-time.After(50 * time.Millisecond):
			if err := l.complaint(); err != nil {
				return err
			}
		}
	}
}

func (l *load) complaint() error {
	for _, taker := range l.consumers {
		select {
		case err := <-taker.lost:
			return err
		default:
		}
		select {
		case <-taker.done:
			return taker.reason()
		default:
		}
	}
	return nil
}

// settle waits for confirms and for consumers to have everything, then checks that it is everything.
func (l *load) settle() error {
	failures, waiting := make(chan error, len(l.producers)), sync.WaitGroup{}
	for _, maker := range l.producers {
		waiting.Add(1)
		go func() {
			defer waiting.Done()
			failures <- maker.finish()
		}()
	}
	waiting.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	if len(l.consumers) == 0 {
		return nil
	}
	if !l.plan.leave {
		for end := time.Now().Add(drainDeadline); l.taken() < l.sent(); time.Sleep(time.Millisecond) {
			if err := l.complaint(); err != nil {
				return err
			}
			if time.Now().After(end) {
				return fmt.Errorf("%d of %d messages came within %s", l.taken(), l.sent(), drainDeadline)
			}
		}
	}
	for _, taker := range l.consumers {
		if err := taker.finish(); err != nil {
			return err
		}
	}
	if l.plan.leave {
		return nil
	}
	return l.account()
}

// account compares, for each producer, how many came and the sum of their numbers with what was sent.
func (l *load) account() error {
	for number, maker := range l.producers {
		var count, sum uint64
		for _, taker := range l.consumers {
			count += taker.counts[number]
			sum += taker.sums[number]
		}
		if sent := maker.published.Load(); count != sent || sum != sent*(sent-1)/2 {
			return fmt.Errorf("producer %d sent %d messages; %d came, and they are not the same", number, sent, count)
		}
	}
	return nil
}

func (l *load) sent() (total uint64) {
	for _, maker := range l.producers {
		total += maker.published.Load()
	}
	return total
}

func (l *load) taken() (total uint64) {
	for _, taker := range l.consumers {
		total += taker.received.Load()
	}
	return total
}

func (l *load) lastDelivery() (latest int64) {
	for _, taker := range l.consumers {
		latest = max(latest, taker.lastAt.Load())
	}
	return latest
}

func (l *load) sample() sample {
	return sample{at: time.Now(), sent: l.sent(), taken: l.taken()}
}

func (l *load) summary(start, end sample) *outcome {
	took := end.at.Sub(start.at).Seconds()
	result := &outcome{Published: l.sent(), Received: l.taken()}
	if took > 0 {
		result.SentRate = float64(end.sent-start.sent) / took
		result.TakenRate = float64(end.taken-start.taken) / took
	}
	var delays, confirms [][]int64
	for _, taker := range l.consumers {
		delays = append(delays, l.warmed(taker.delays.values))
	}
	for _, maker := range l.producers {
		confirms = append(confirms, l.warmed(maker.confirms.values))
	}
	result.Delivery, result.Confirm = percentiles(delays), percentiles(confirms)
	return result
}

// warmed leaves out the values of the warm-up: with a steady rate that is its share of the time.
func (l *load) warmed(values []int64) []int64 {
	return values[int(float64(len(values))*l.plan.warm/(l.plan.warm+l.plan.seconds)):]
}
