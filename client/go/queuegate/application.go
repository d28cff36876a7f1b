package queuegate

import (
	"context"
	"fmt"
	"maps"
	"slices"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// Action is a kind of access to an application.
type Action string

// The actions.
const (
	View     Action = "view"
	ViewLogs Action = "view_logs"
	// Modify includes killing the application.
	Modify Action = "modify"
	// Move moves the application to another queue. YARN only.
	Move Action = "move"
	// ActionAdmin permits acting for other users. Spark only. Admin is an [Access].
	ActionAdmin Action = "admin"
)

// An ApplicationCheck asks whether a user may take an action on an application.
type ApplicationCheck struct {
	// User is the name of the user. Required.
	User string
	// Action is the requested action. Required.
	Action Action
	// Application is a YARN application, whose queue and owner are required. Spark is a Spark
	// application, subject to Spark's own rules. Exactly one of them is required.
	Application *queuegatev1.Application
	Spark       *queuegatev1.SparkApplication
	// Partition is the partition of the application. Defaults to "default".
	Partition string
	// Groups and NoGroups are as in [Check].
	Groups   []string
	NoGroups bool
	// TargetQueue is the path of the target queue of a move.
	TargetQueue string
	// RealUser is the service acting for the user, if any.
	RealUser string
}

var actions = map[Action]queuegatev1.ApplicationAction{
	View:        queuegatev1.ApplicationAction_APPLICATION_ACTION_VIEW,
	ViewLogs:    queuegatev1.ApplicationAction_APPLICATION_ACTION_VIEW_LOGS,
	Modify:      queuegatev1.ApplicationAction_APPLICATION_ACTION_MODIFY,
	Move:        queuegatev1.ApplicationAction_APPLICATION_ACTION_MOVE,
	ActionAdmin: queuegatev1.ApplicationAction_APPLICATION_ACTION_ADMIN,
}

// CheckApplication checks whether a user may view, modify or move an application.
func (c *Client) CheckApplication(ctx context.Context, question ApplicationCheck) (Decision, error) {
	response, err := ask(
		ctx, c, c.plan.timeout, c.access.CheckApplicationAccess, question.request(), question.faults()...)
	if err != nil {
		return Decision{}, err
	}
	return decisionOf(response)
}

// CheckApplications runs many application checks at once, as [Client.CheckMany] does for queues.
func (c *Client) CheckApplications(ctx context.Context, questions []ApplicationCheck) ([]Result, error) {
	if err := validateAll(questions, (*ApplicationCheck).faults); err != nil {
		return nil, err
	}
	ctx, cancel := limited(ctx, c.plan.timeout)
	defer cancel()
	results := make([]Result, len(questions))
	all := make([]int, len(questions))
	for i := range all {
		all[i] = i
	}
	check := func(
		batch []*queuegatev1.CheckApplicationAccessRequest,
	) ([]*queuegatev1.ApplicationCheckResult, error) {
		request := &queuegatev1.BatchCheckApplicationAccessRequest{Checks: batch}
		response, err := ask(ctx, c, c.plan.timeout, c.access.BatchCheckApplicationAccess, request)
		return response.GetResults(), err
	}
	if err := inBatches(questions, all, results, (*ApplicationCheck).request, check); err != nil {
		return nil, err
	}
	return results, nil
}

// ExplainApplication runs CheckApplication, and returns the evaluated lists as well.
func (c *Client) ExplainApplication(
	ctx context.Context, question ApplicationCheck,
) (*queuegatev1.ExplainApplicationAccessResponse, error) {
	request := &queuegatev1.ExplainApplicationAccessRequest{Check: question.request()}
	response, err := ask(
		ctx, c, c.plan.timeout, c.access.ExplainApplicationAccess, request, question.faults()...)
	if err != nil {
		return nil, err
	}
	if _, err := decisionOf(response.GetDecision()); err != nil {
		return nil, err
	}
	return response, nil
}

func (question *ApplicationCheck) request() *queuegatev1.CheckApplicationAccessRequest {
	request := &queuegatev1.CheckApplicationAccessRequest{
		User:        userGroups(question.User, question.Groups, question.NoGroups),
		Partition:   question.Partition,
		Action:      actions[question.Action],
		TargetQueue: question.TargetQueue,
		RealUser:    question.RealUser,
	}
	if question.Spark != nil {
		request.Subject = &queuegatev1.CheckApplicationAccessRequest_Spark{Spark: question.Spark}
	} else if question.Application != nil {
		request.Subject = &queuegatev1.CheckApplicationAccessRequest_Application{Application: question.Application}
	}
	return request
}

func (question *ApplicationCheck) faults() []Violation {
	faults := userFaults(question.User, question.Groups, question.NoGroups)
	faults = appendFault(faults, "partition", question.Partition, optional)
	faults = appendFault(faults, "target_queue", question.TargetQueue, optional)
	faults = appendFault(faults, "real_user", question.RealUser, optional)
	if _, known := actions[question.Action]; !known {
		faults = append(faults, Violation{"action", fmt.Sprintf(
			`must be "view", "view_logs", "modify", "move" or "admin", not %q`, question.Action)})
	}
	if (question.Application == nil) == (question.Spark == nil) {
		faults = append(faults, Violation{"application", "or spark must be set, but not both"})
	}
	if stated := question.Application; stated != nil {
		faults = appendFault(faults, "application.queue", stated.GetQueue(), required)
		faults = appendFault(faults, "application.owner", stated.GetOwner(), required)
		faults = appendFault(faults, "application.view_acl", stated.GetViewAcl(), optional)
		faults = appendFault(faults, "application.modify_acl", stated.GetModifyAcl(), optional)
	}
	if spark := question.Spark; spark != nil {
		for _, name := range slices.Sorted(maps.Keys(spark.Properties)) {
			value := spark.Properties[name]
			faults = appendFault(faults, "spark.properties", name, required)
			faults = appendFault(faults, fmt.Sprintf("spark.properties[%q]", name), value, optional)
		}
		faults = appendFault(faults, "spark.spark_user", spark.SparkUser, optional)
		faults = appendFault(faults, "spark.process_user", spark.ProcessUser, optional)
	}
	return faults
}
