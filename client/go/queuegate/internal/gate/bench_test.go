package gate

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// manyQueues returns a policy in parts.
func manyQueues(count int) []*queuegatev1.SyncResponse {
	queues := []testQueue{{"root", "", " platform"}}
	for i := range count {
		switch i % 100 {
		case 0:
			queues = append(queues, testQueue{fmt.Sprintf("root.d%d", i/100), "", fmt.Sprintf("boss%d", i/100)})
		default:
			acl := fmt.Sprintf("user%d,user%d group%d", i, i+1, i%1000)
			queues = append(queues, testQueue{fmt.Sprintf("root.d%d.q%d", i/100, i), acl, ""})
		}
	}
	whole := compile(queues...)
	whole.Partition = "default"
	var parts []*queuegatev1.SyncResponse
	for _, each := range cut(whole, 10_000) {
		parts = append(parts, part(each))
	}
	return parts
}

func benchmarkWorld(b *testing.B, count int) (*world, []Question) {
	w := newWorld(b).live(manyQueues(count)...)
	w.decider.clock = newClock()
	w.now = w.decider.clock()
	w.session.leaseUntil.Store(int64(w.now + 24*time.Hour))
	var questions []Question
	for i := 1; i < count; i += 1 + count/1_000 {
		if i%100 == 0 {
			continue
		}
		question := Question{User: fmt.Sprintf("guest%d", i%1000), Queue: fmt.Sprintf("root.d%d.q%d", i/100, i), Partition: "default"}
		questions = append(questions, question)
		w.decider.Decide(&question)
		w.give(question.User, 23*time.Hour, question.User, "staff", "x", fmt.Sprintf("group%d", i%1000))
	}
	return w, questions
}

// reportCPU reports CPU time, which hardly depends on other programs.
func reportCPU(b *testing.B) {
	b.Helper()
	used := func() int64 {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			b.Fatal(err)
		}
		return usage.Utime.Nano() + usage.Stime.Nano()
	}
	before := used()
	b.Cleanup(func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") })
}

func BenchmarkClock(b *testing.B) {
	clock := newClock()
	reportCPU(b)
	for b.Loop() {
		clock()
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, count := range []int{200, 100_000} {
		w, questions := benchmarkWorld(b, count)
		b.Run(fmt.Sprintf("remembered/%d", count), func(b *testing.B) {
			known := questions[:min(len(questions), 500)]
			i := 0
			reportCPU(b)
			for b.Loop() {
				if _, decided := w.decider.Decide(&known[i]); !decided {
					b.Fatal(known[i])
				}
				if i++; i == len(known) {
					i = 0
				}
			}
		})
		b.Run(fmt.Sprintf("new/%d", count), func(b *testing.B) {
			i := 0
			reportCPU(b)
			for b.Loop() {
				if _, decided := w.decider.Decide(&questions[i]); !decided {
					b.Fatal(questions[i])
				}
				if i++; i == len(questions) {
					i = 0
					// Cached decisions are no longer valid.
					now := w.decider.replica.state.Load()
					w.decider.replica.replace(now.policies, now.rights)
				}
			}
		})
	}
}

// A gate with a hundred thousand queues uses little memory.
func TestMemory(t *testing.T) {
	policy := manyQueues(100_000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	w := newWorld(t)
	start := time.Now()
	w.live(policy...)
	t.Log("built in", time.Since(start))
	policy = nil
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("%d MiB before, %d MiB after", before.HeapAlloc>>20, after.HeapAlloc>>20)
	w.expect("user5", "root.d0.q5", "user")
	if after.HeapAlloc > 100<<20 {
		t.Error("too much memory")
	}
}
