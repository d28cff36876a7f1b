package gate

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/queuegate/queuegate/client/go/queuegate/internal/policy"
	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

func openOutbox(t *testing.T, folder string) *Outbox {
	t.Helper()
	outbox, err := OpenOutbox(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(outbox.Close)
	return outbox
}

func openReporter(t *testing.T, folder string) (*reporter, *Outbox) {
	outbox := openOutbox(t, folder)
	return &reporter{outbox: outbox}, outbox
}

func (o *Outbox) addFor(users ...string) bool {
	for _, user := range users {
		answer := Answer{Decision: policy.Decision{Allowed: true, Reason: policy.User, MatchedSubject: user}, Revision: 7}
		if !o.add(&Question{User: user, Queue: "root"}, "default", answer) {
			return false
		}
	}
	return true
}

// report returns the ID and the users of the next report.
func (r *reporter) report() (uint64, []string) {
	report := r.next().GetReport()
	var got []string
	for _, each := range report.GetDecisions() {
		got = append(got, each.GetUser())
	}
	return report.GetId(), got
}

func files(t *testing.T, folder string) []string {
	t.Helper()
	got, err := filepath.Glob(filepath.Join(folder, "[0-9]*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		got[i] = filepath.Base(got[i])
	}
	return got
}

func TestReportsAreConfirmed(t *testing.T) {
	folder := t.TempDir()
	reporter, outbox := openReporter(t, filepath.Join(folder, "made"))
	folder = filepath.Join(folder, "made")
	if reporter.next() != nil {
		t.Error("there is nothing to report")
	}
	outbox.addFor("alice", "bob")
	first, users := reporter.report()
	if !slices.Equal(users, []string{"alice", "bob"}) {
		t.Error(users)
	}
	outbox.addFor("eve")
	if reporter.next() != nil {
		t.Error("a report is not confirmed yet")
	}
	reporter.confirm(&queuegatev1.SyncReported{Id: first + 1})
	reporter.restart()
	again, users := reporter.report()
	if again <= first || len(users) != 2 {
		t.Error(again, users)
	}
	reporter.confirm(&queuegatev1.SyncReported{Id: again})
	second, users := reporter.report()
	if second <= again || !slices.Equal(users, []string{"eve"}) {
		t.Error(first, second, users)
	}
	reporter.confirm(&queuegatev1.SyncReported{Id: second})
	if left := files(t, folder); len(left) > 0 || outbox.counts.WaitingBytes != 0 {
		t.Error(left, outbox.counts.WaitingBytes)
	}
}

// Java locks ranges of files only.
func TestAFolderOfAGateInJava(t *testing.T) {
	folder := t.TempDir()
	theirs, err := os.Create(filepath.Join(folder, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	whole := &syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(theirs.Fd(), syscall.F_SETLK, whole); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenOutbox(folder); err == nil || !strings.Contains(err.Error(), "another gate") {
		t.Error(err)
	}
	openOutbox(t, folder) // the failed attempt has ended this process's lock
	if err := syscall.FcntlFlock(theirs.Fd(), syscall.F_SETLK, whole); err == nil {
		t.Error("the folder of a gate in Go was locked")
	}
}

func TestReportsOutliveTheProcess(t *testing.T) {
	folder := t.TempDir()
	before := openOutbox(t, folder)
	before.addFor("alice", "bob")
	if _, err := OpenOutbox(folder); err == nil || !strings.Contains(err.Error(), "another gate") {
		t.Error(err)
	}
	before.lock.Close() // as when the process exits while writing its last decision
	if err := os.Truncate(filepath.Join(folder, files(t, folder)[0]), before.newest.size-3); err != nil {
		t.Fatal(err)
	}
	reporter, after := openReporter(t, folder)
	after.addFor("eve")
	for _, want := range []string{"alice", "eve"} {
		id, users := reporter.report()
		if !slices.Equal(users, []string{want}) {
			t.Error(users)
		}
		reporter.confirm(&queuegatev1.SyncReported{Id: id})
	}
}

func TestDamagedSegments(t *testing.T) {
	for name, damage := range map[string]string{
		"zeros":      strings.Repeat("\x00", 100),
		"no message": "\x04\xff\xff\xff\xff",
		"no length":  "\xff\xff\xff",
		"too short":  "\x7fabc",
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			before := openOutbox(t, folder)
			before.addFor("alice", "bob")
			before.Close()
			intact, err := os.ReadFile(before.sealed[0].path)
			if err != nil {
				t.Fatal(err)
			}
			damaged := append(intact, damage...)
			if err := os.WriteFile(filepath.Join(folder, "3.decisions"), damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, "2.decisions"), []byte(damage), 0o600); err != nil {
				t.Fatal(err)
			}
			reporter, outbox := openReporter(t, folder)
			outbox.addFor("eve")
			for _, want := range []string{"alice bob", "alice bob", "eve"} {
				id, users := reporter.report()
				if strings.Join(users, " ") != want {
					t.Error(id, users)
				}
				reporter.confirm(&queuegatev1.SyncReported{Id: id})
			}
			if left := files(t, folder); !slices.Equal(left, []string{"2.damaged", "3.damaged"}) {
				t.Error(left)
			}
			kept := int64(len(damage) + len(damaged))
			if want := (OutboxCounts{WaitingBytes: kept, Confirmed: 5, Damaged: 2}); outbox.Counts() != want {
				t.Errorf("%+v instead of %+v", outbox.Counts(), want)
			}
		})
	}
}

func TestDecisionsThatTheServerDoesNotAccept(t *testing.T) {
	folder := t.TempDir()
	reporter, outbox := openReporter(t, folder)
	outbox.addFor("alice", "bob", "eve")
	id, _ := reporter.report()
	reporter.confirm(&queuegatev1.SyncReported{Id: id, Refused: []*queuegatev1.RefusedDecision{
		{Index: 1, Fault: "user is odd"}, {Index: 7, Fault: "of no decision"},
	}})
	rejected, err := readSegment(filepath.Join(folder, rejectedName))
	if err != nil || len(rejected) != 1 || rejected[0].GetUser() != "bob" {
		t.Error(rejected, err)
	}
	info, err := os.Stat(filepath.Join(folder, rejectedName))
	if err != nil {
		t.Fatal(err)
	}
	if want := (OutboxCounts{WaitingBytes: info.Size(), Confirmed: 2, Rejected: 1}); outbox.Counts() != want {
		t.Errorf("%+v instead of %+v", outbox.Counts(), want)
	}
	if reporter.next() != nil {
		t.Error("it is not reported again")
	}
}

func TestDecisionsThatCannotBeWritten(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "outbox")
	outbox := openOutbox(t, folder)
	if err := os.Mkdir(outbox.newest.path, 0o700); err != nil { // a name in use is skipped
		t.Fatal(err)
	}
	if outbox.addFor("alice") || !outbox.addFor("bob") {
		t.Error(outbox.Counts())
	}
	outbox.Close()
	if outbox.addFor("eve") || outbox.oldest() != nil {
		t.Error("it is closed")
	}
	if err := os.Rename(folder, folder+".gone"); err != nil {
		t.Fatal(err)
	}
	lost := openOutbox(t, folder)
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if lost.addFor("alice") || lost.Counts().NotKept != 1 || lost.oldest() != nil {
		t.Error(lost.Counts())
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if !lost.addFor("alice") {
		t.Error("it can be written again")
	}
}

func TestSegmentsAndReportsAreBounded(t *testing.T) {
	reporter, outbox := openReporter(t, t.TempDir())
	const all = 3 * maxReported
	for i := range all {
		outbox.addFor(fmt.Sprint("user", i))
	}
	for arrived := 0; arrived < all; {
		id, users := reporter.report()
		if len(users) == 0 || len(users) > maxReported || users[0] != fmt.Sprint("user", arrived) {
			t.Fatal(id, len(users), arrived)
		}
		arrived += len(users)
		reporter.confirm(&queuegatev1.SyncReported{Id: id})
	}
	long := strings.Repeat("u", 1_000)
	for outbox.addFor(long) {
	}
	if size := outbox.Counts().WaitingBytes; size > maxOutboxBytes || size < maxOutboxBytes-3_000 {
		t.Error(size)
	}
	for _, each := range outbox.sealed {
		if each.size > maxSegmentBytes+3_000 {
			t.Error(each)
		}
	}
	id, users := reporter.report()
	if len(users) == 0 {
		t.Error(users)
	}
	reporter.confirm(&queuegatev1.SyncReported{Id: id})
	if !outbox.addFor(long) {
		t.Error("there is room again")
	}
}

// Only decisions that close streams are set aside.
func TestReportsAreDivided(t *testing.T) {
	for count := range 4 {
		reporter, outbox := openReporter(t, t.TempDir())
		poison := map[string]bool{}
		for len(poison) < count {
			poison[fmt.Sprint("user", rand.IntN(300))] = true
		}
		var want, arrived []string
		for i := range 300 {
			user := fmt.Sprint("user", i)
			if outbox.addFor(user); !poison[user] {
				want = append(want, user)
			}
		}
		reporter.split("nothing has been reported")
		for streams := 0; streams < 10*count+1; streams++ {
			for {
				id, users := reporter.report()
				if slices.ContainsFunc(users, func(user string) bool { return poison[user] }) {
					reporter.split("poison")
					break
				}
				arrived = append(arrived, users...)
				reporter.confirm(&queuegatev1.SyncReported{Id: id})
				if len(users) == 0 {
					break
				}
			}
			reporter.restart()
		}
		if !slices.Equal(arrived, want) {
			t.Errorf("%d arrived instead of %d", len(arrived), len(want))
		}
		counts := outbox.Counts()
		if counts.Rejected != uint64(count) || counts.Confirmed != uint64(300-count) {
			t.Errorf("%+v with %d", counts, count)
		}
	}
}

func TestDecisionsAreReported(t *testing.T) {
	folder := t.TempDir()
	reporter, outbox := openReporter(t, folder)
	w := newWorld(t)
	w.session.canReport = true
	w.decider.outbox = outbox
	w.session.open()
	w.receive(opened(func(o *queuegatev1.SyncOpened) { o.ReportDecisions = true }), whole("default", "alice"), checkpoint(1))
	question := &Question{User: "alice", Queue: "root", Access: policy.Submit, Groups: []string{"g", "h"}, RealUser: "knox"}
	w.decider.Decide(question)
	w.renew()
	w.decider.Decide(question)
	w.decider.Decide(&Question{User: "alice", Queue: "root.x", Partition: "[rm]default", Access: policy.Admin, Groups: []string{"g"}})
	w.decider.grace.Store(int64(w.now))
	w.now *= 2
	w.decider.Decide(question) // cached
	decisions := reporter.next().GetReport().GetDecisions()
	if len(decisions) != 3 {
		t.Fatal(decisions)
	}
	granted := &queuegatev1.CheckQueueAccessResponse{
		Allowed: true, Reason: queuegatev1.Reason_REASON_USER, MatchedQueue: "root", MatchedSubject: "alice", PolicyRevision: 1,
	}
	denied := &queuegatev1.CheckQueueAccessResponse{
		Reason: queuegatev1.Reason_REASON_NO_MATCH, EvaluatedQueue: "root", PolicyRevision: 1,
	}
	submit, admin := queuegatev1.AccessType_ACCESS_TYPE_SUBMIT, queuegatev1.AccessType_ACCESS_TYPE_ADMIN
	for i, want := range []*queuegatev1.LocalDecision{
		{User: "alice", Partition: "default", Queue: "root", Access: submit, RealUser: "knox", GroupsInRequest: 2, Decision: granted},
		{User: "alice", Partition: "default", Queue: "root.x", Access: admin, GroupsInRequest: 1, Decision: denied},
		{User: "alice", Partition: "default", Queue: "root", Access: submit, RealUser: "knox", GroupsInRequest: 2, Decision: granted, Stale: true},
	} {
		if time := decisions[i].GetTime(); !time.IsValid() || time.GetSeconds() == 0 {
			t.Error(time)
		}
		decisions[i].Time = nil
		if fmt.Sprint(decisions[i]) != fmt.Sprint(want) {
			t.Errorf("%v instead of %v", decisions[i], want)
		}
	}

	// Without space for the record, there is no decision.
	w.decider.outbox.Close()
	w.session.open()
	w.receive(opened(func(o *queuegatev1.SyncOpened) { o.ReportDecisions = true }), unchanged("default", "alice", 2))
	w.renew()
	w.expect("alice", "root", "")
}
