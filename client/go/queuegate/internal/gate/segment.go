package gate

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/queuegate/queuegate/client/go/queuegate/internal/policy"
	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// A segment is a file of length-prefixed decisions.
type segment struct {
	number uint64
	path   string
	size   int64
}

// readSegment returns a segment's decisions up to the first fault, and the fault as an error.
func readSegment(path string) ([]*queuegatev1.LocalDecision, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var decisions []*queuegatev1.LocalDecision
	for rest := bytes.NewReader(content); rest.Len() > 0; {
		start := len(content) - rest.Len()
		decision := &queuegatev1.LocalDecision{}
		if protodelim.UnmarshalFrom(rest, decision) != nil || !isPossible(decision) {
			return decisions, fmt.Errorf("there is no complete decision at byte %d", start)
		}
		decisions = append(decisions, decision)
	}
	return decisions, nil
}

// isPossible returns whether a gate could have written a decision. After a crash of the machine, a file
// may contain other bytes, such as zeros.
func isPossible(decision *queuegatev1.LocalDecision) bool {
	return decision.GetUser() != "" && decision.GetQueue() != "" &&
		decision.GetDecision().GetReason() != queuegatev1.Reason_REASON_UNSPECIFIED &&
		decision.GetTime().IsValid()
}

func localDecision(question *Question, partition string, answer Answer) *queuegatev1.LocalDecision {
	access := queuegatev1.AccessType_ACCESS_TYPE_SUBMIT
	if question.Access == policy.Admin {
		access = queuegatev1.AccessType_ACCESS_TYPE_ADMIN
	}
	return &queuegatev1.LocalDecision{
		Time:            timestamppb.Now(),
		User:            question.User,
		Partition:       partition,
		Queue:           question.Queue,
		Access:          access,
		RealUser:        question.RealUser,
		GroupsInRequest: uint32(len(question.Groups)),
		NoGroups:        question.NoGroups,
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
