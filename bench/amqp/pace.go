package main

import (
	"math"
	"runtime"
	"sort"
	"syscall"
	"time"
)

var epoch = time.Now()

// now is monotonic, in nanoseconds, and the same for producers and consumers.
func now() int64 { return int64(time.Since(epoch)) }

// pacer says when the next message is due. It sleeps in the kernel on a thread of its own, because the runtime's timers
// are a millisecond coarse.
type pacer struct {
	began    time.Time
	interval float64 // nanoseconds
	offset   float64 // so that several producers take turns
}

func newPacer(began time.Time, perSecond float64, number, among int) *pacer {
	runtime.LockOSThread()
	interval := 1e9 / perSecond
	return &pacer{began: began, interval: interval, offset: interval * float64(number) / float64(among)}
}

func (p *pacer) wait(sequence uint64) {
	due := p.began.Add(time.Duration(p.offset + p.interval*float64(sequence)))
	if left := time.Until(due); left > 0 {
		request := syscall.NsecToTimespec(int64(left))
		_ = syscall.Nanosleep(&request, nil)
	}
}

func (p *pacer) end() { runtime.UnlockOSThread() }

// latencies keeps every value: a paced load has few enough of them.
type latencies struct{ values []int64 }

func (l *latencies) add(nanoseconds int64) { l.values = append(l.values, nanoseconds) }

// percentiles in microseconds of all the values together.
func percentiles(parts [][]int64) map[string]float64 {
	var all []int64
	for _, part := range parts {
		all = append(all, part...)
	}
	if len(all) == 0 {
		return nil
	}
	sort.Slice(all, func(a, b int) bool { return all[a] < all[b] })
	at := func(share float64) float64 {
		return float64(all[int(math.Min(float64(len(all)-1), share*float64(len(all))))]) / 1e3
	}
	return map[string]float64{"p50_us": at(0.5), "p99_us": at(0.99), "p999_us": at(0.999), "max_us": float64(all[len(all)-1]) / 1e3}
}

func cpuSeconds() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}
