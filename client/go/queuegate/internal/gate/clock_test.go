package gate

import (
	"testing"
	"time"
)

// A machine is a set of clocks controlled by the test.
type machine struct {
	wall, monotonic, boot time.Duration
	reads                 int // readings of the boot clock
	broken                bool
	pause                 time.Duration // how long the process is suspended while reading the boot clock
}

func (m *machine) run(passed time.Duration) {
	m.wall += passed
	m.monotonic += passed
	m.boot += passed
}

func (m *machine) suspend(passed time.Duration) {
	m.wall += passed
	m.boot += passed
}

func (m *machine) clock() *bootClock {
	return &bootClock{
		cheap: func() (time.Duration, time.Duration) { return m.wall, m.monotonic },
		boot: func() (time.Duration, bool) {
			m.reads++
			now := m.boot
			m.run(m.pause)
			return now, !m.broken
		},
	}
}

func TestTheClockGoesOnWhileTheMachineIsSuspended(t *testing.T) {
	m := &machine{wall: 1_000 * time.Hour, monotonic: time.Hour, boot: 5 * time.Hour}
	clock := m.clock()
	expect := func(reads int) {
		t.Helper()
		if now := clock.now(); now != m.boot {
			t.Errorf("%v instead of %v", now, m.boot)
		}
		if m.reads != reads {
			t.Errorf("%d instead of %d readings", m.reads, reads)
		}
	}
	expect(1)
	m.run(maxReadingAge - 1)
	expect(1)
	m.run(1)
	expect(2)
	m.suspend(10 * time.Second)
	expect(3)
	m.run(time.Millisecond)
	expect(3)
	m.wall -= time.Hour // the clock is set
	expect(4)
	m.run(time.Millisecond)
	expect(4)
	m.suspend(time.Hour)
	m.wall -= time.Hour // and set back while the machine is suspended
	m.run(maxReadingAge)
	expect(5)
}

func TestReadingsOfAProcessThatIsStoppedAreNotUsed(t *testing.T) {
	m := &machine{pause: time.Minute}
	clock := m.clock()
	clock.now() // the process is suspended between readings
	m.pause = 0
	if now := clock.now(); now != m.boot || m.reads != 2 {
		t.Errorf("%v instead of %v after %d readings", now, m.boot, m.reads)
	}
}

func TestWithoutTheBootClockNoLeaseLasts(t *testing.T) {
	m := &machine{broken: true}
	if now := m.clock().now(); now != forever {
		t.Error(now)
	}
}

func TestTheClockOfThisMachine(t *testing.T) {
	clock := newClock()
	boot, has := bootTime()
	before := time.Now()
	first := clock()
	if has && (first < boot-maxStep || first > boot+time.Minute) {
		t.Errorf("%v, but the machine was started %v ago", first, boot)
	}
	for time.Since(before) < 2*maxStep {
		if now := clock(); now < first-maxStep {
			t.Fatalf("the clock went back from %v to %v", first, now)
		}
	}
	if passed, all := clock()-first, time.Since(before); passed > all+2*maxStep || passed <= 0 {
		t.Errorf("%v passed instead of %v", passed, all)
	}
}
