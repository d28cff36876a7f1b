package gate

import (
	"cmp"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/queuegate/queuegate/client/go/queuegate/internal/policy"
	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

const (
	// maxOutbox is how many bytes of decisions may wait; then the server is asked instead.
	maxOutbox = 64 << 20
	// A segment is as large as one report may be.
	maxSegment          = 512 << 10
	maxSegmentDecisions = 1_000

	segmentSuffix = ".decisions"
	// brokenSuffix is added to a segment that cannot be read, for people to look at.
	brokenSuffix = ".broken"
)

// An Outbox keeps decisions in a folder until the server's audit log has them, also over the end of
// the process. Each decision is written to the newest segment before it is answered. A segment is a
// file of messages, each after its length; it is reported as a whole, under its number, and deleted
// when that is confirmed.
type Outbox struct {
	folder string
	lock   *os.File

	mutex    sync.Mutex
	size     int64 // of all segments
	sealed   []segment
	newest   segment
	file     *os.File // of the newest segment; nil before its first decision
	buffer   []byte
	inFlight uint64 // the number of the segment that has been reported; 0 if none
}

type segment struct {
	number    uint64
	size      int64
	decisions int
}

// OpenOutbox opens a folder, which is made if it does not exist. Only one outbox may have it.
func OpenOutbox(folder string) (*Outbox, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	lock, err := lockFolder(folder)
	if err != nil {
		return nil, err
	}
	o := &Outbox{folder: folder, lock: lock}
	if err := o.load(); err != nil {
		lock.Close()
		return nil, err
	}
	return o, nil
}

// load finds the segments of processes before this one.
func (o *Outbox) load() error {
	files, err := os.ReadDir(o.folder)
	if err != nil {
		return err
	}
	for _, file := range files {
		digits, isSegment := strings.CutSuffix(file.Name(), segmentSuffix)
		number, err := strconv.ParseUint(digits, 10, 63)
		if !isSegment || err != nil {
			continue
		}
		info, err := file.Info()
		if err != nil {
			return err
		}
		o.sealed = append(o.sealed, segment{number: number, size: info.Size()})
		o.size += info.Size()
		o.newest.number = max(o.newest.number, number)
	}
	slices.SortFunc(o.sealed, func(a, b segment) int { return cmp.Compare(a.number, b.number) })
	o.newest.number++
	return nil
}

// add keeps a decision; false if it cannot be kept, so that it must not be used.
func (o *Outbox) add(question *Question, answer Answer) bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	var err error
	message := localDecision(question, answer)
	o.buffer = binary.AppendUvarint(o.buffer[:0], uint64(proto.Size(message)))
	if o.buffer, err = (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend(o.buffer, message); err != nil {
		return false
	}
	if o.size+int64(len(o.buffer)) > maxOutbox || o.lock == nil {
		return false
	}
	if o.file == nil {
		o.file, err = os.OpenFile(o.path(o.newest), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			o.file = nil
			o.newest = segment{number: o.newest.number + 1}
			return false
		}
	}
	written, err := o.file.Write(o.buffer)
	o.size += int64(written)
	o.newest.size += int64(written)
	if err != nil { // a part of a decision is ignored at the end of a segment
		o.seal()
		return false
	}
	o.newest.decisions++
	if o.newest.size >= maxSegment || o.newest.decisions >= maxSegmentDecisions {
		o.seal()
	}
	return true
}

// next returns the next report; nil if there is nothing to report, or a report is to be confirmed.
func (o *Outbox) next() *queuegatev1.SyncRequest {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.inFlight != 0 {
		return nil
	}
	for len(o.sealed) > 0 || o.file != nil {
		if len(o.sealed) == 0 {
			o.seal()
		}
		oldest := o.sealed[0]
		decisions, err := readSegment(o.path(oldest))
		switch {
		case err != nil:
			_ = os.Rename(o.path(oldest), o.path(oldest)+brokenSuffix) // it is not read again in any case
			o.drop()
		case len(decisions) == 0:
			o.delete()
		default:
			o.inFlight = oldest.number
			report := &queuegatev1.SyncReport{Id: oldest.number, Decisions: decisions}
			return &queuegatev1.SyncRequest{Message: &queuegatev1.SyncRequest_Report{Report: report}}
		}
	}
	return nil
}

// confirmed deletes the decisions of a report.
func (o *Outbox) confirmed(id uint64) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if id != 0 && id == o.inFlight {
		o.inFlight = 0
		o.delete()
	}
}

// restart reports decisions again that were not confirmed.
func (o *Outbox) restart() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.inFlight = 0
}

// Close keeps no more decisions.
func (o *Outbox) Close() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.file != nil {
		o.seal()
	}
	if o.lock != nil {
		o.lock.Close()
		o.lock = nil
	}
}

func (o *Outbox) path(of segment) string {
	return filepath.Join(o.folder, strconv.FormatUint(of.number, 10)+segmentSuffix)
}

// seal ends the newest segment.
func (o *Outbox) seal() {
	o.file.Close()
	o.file = nil
	o.sealed = append(o.sealed, o.newest)
	o.newest = segment{number: o.newest.number + 1}
}

// delete deletes the oldest segment. If that fails, a later process reports it again.
func (o *Outbox) delete() {
	_ = os.Remove(o.path(o.sealed[0]))
	o.drop()
}

func (o *Outbox) drop() {
	o.size -= o.sealed[0].size
	o.sealed = o.sealed[1:]
}

// readSegment reads the decisions of a segment. The last one may be incomplete: then it has not been
// answered.
func readSegment(path string) ([]*queuegatev1.LocalDecision, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var decisions []*queuegatev1.LocalDecision
	for {
		length, prefix := binary.Uvarint(content)
		if prefix <= 0 || length > uint64(len(content)-prefix) {
			return decisions, nil
		}
		decision := &queuegatev1.LocalDecision{}
		if err := proto.Unmarshal(content[prefix:][:length], decision); err != nil {
			return nil, err
		}
		decisions = append(decisions, decision)
		content = content[prefix:][length:]
	}
}

func localDecision(question *Question, answer Answer) *queuegatev1.LocalDecision {
	access := queuegatev1.AccessType_ACCESS_TYPE_SUBMIT
	if question.Access == policy.Admin {
		access = queuegatev1.AccessType_ACCESS_TYPE_ADMIN
	}
	partition := question.Partition
	if partition == "" {
		partition = policy.DefaultPartition
	}
	return &queuegatev1.LocalDecision{
		Time:            timestamppb.Now(),
		User:            question.User,
		Partition:       partition,
		Queue:           question.Queue,
		Access:          access,
		RealUser:        question.RealUser,
		GroupsInRequest: uint32(len(question.Groups)),
		Decision: &queuegatev1.CheckQueueAccessResponse{
			Allowed:        answer.Allowed,
			Reason:         queuegatev1.Reason(queuegatev1.Reason_value["REASON_"+strings.ToUpper(string(answer.Reason))]),
			MatchedQueue:   answer.MatchedQueue,
			MatchedSubject: answer.MatchedSubject,
			PolicyRevision: answer.Revision,
			EvaluatedQueue: answer.Evaluated,
		},
		Stale: answer.Stale,
	}
}
