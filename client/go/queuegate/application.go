package queuegate

import (
	"context"
	"fmt"
	"maps"
	"slices"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// Action is what a user wants to do with an application.
type Action string

// The actions.
const (
	View     Action = "view"
	ViewLogs Action = "view_logs"
	// Modify is to change or kill the application.
	Modify Action = "modify"
	// Move is to move it to another queue; not for Spark's own rules.
	Move Action = "move"
	// ActionAdmin is to act for other users; only for Spark's own rules. Admin is an Access.
	ActionAdmin Action = "admin"
)

// An Application is one of YARN.
type Application struct {
	// Queue is the path of the queue in which it runs. Required.
	Queue string
	// Owner is who started it. Required.
	Owner string
	// ViewACL and ModifyACL are as submitted; empty: nobody.
	ViewACL   string
	ModifyACL string
}

// A SparkApplication is one of Spark, whose own rules decide about it.
type SparkApplication struct {
	// Properties, such as spark.ui.view.acls, override the server's spark_defaults.
	Properties map[string]string
	// SparkUser is the user that it runs for.
	SparkUser string
	// ProcessUser is the user of the operating system that its process runs as.
	ProcessUser string
}

// An ApplicationCheck is a question: may this user do this with this application?
type ApplicationCheck struct {
	// User is the name of the user. Required.
	User string
	// Action is what the user wants to do. Required.
	Action Action
	// Application or Spark, and not both, is what it is about.
	Application *Application
	Spark       *SparkApplication
	// Partition is the partition of the application. Empty: default.
	Partition string
	// Groups and NoGroups are as in [Check].
	Groups   []string
	NoGroups bool
	// TargetQueue is the path of the queue to which the application is to be moved.
	TargetQueue string
	// RealUser is the service that acts for the user, if any.
	RealUser string
}

// An ApplicationExplanation is a decision about an application and its evaluation.
type ApplicationExplanation struct {
	Decision Decision
	// Steps are the evaluated lists, in order. If access is granted, the last one granted it.
	Steps []ApplicationStep
	// Groups says how the groups were obtained.
	Groups ExplainedGroups
}

// An ApplicationStep is one evaluated list of names.
type ApplicationStep struct {
	// List is owner, view, modify, queue_submit, queue_admin, cluster_admin, application_admin
	// (Spark's administrators of all applications) or unspecified.
	List string
	// Queue is the path of the queue, if the list is a queue's ACL.
	Queue string
	// ACLText is the list as configured.
	ACLText string
}

var (
	actions = map[Action]queuegatev1.ApplicationAction{
		View:        queuegatev1.ApplicationAction_APPLICATION_ACTION_VIEW,
		ViewLogs:    queuegatev1.ApplicationAction_APPLICATION_ACTION_VIEW_LOGS,
		Modify:      queuegatev1.ApplicationAction_APPLICATION_ACTION_MODIFY,
		Move:        queuegatev1.ApplicationAction_APPLICATION_ACTION_MOVE,
		ActionAdmin: queuegatev1.ApplicationAction_APPLICATION_ACTION_ADMIN,
	}
	applicationLists = newEnumNames[string](queuegatev1.ApplicationList_name)
)

// CheckApplication asks whether a user may view, modify or move an application.
func (c *Client) CheckApplication(ctx context.Context, question ApplicationCheck) (Decision, error) {
	if faults := question.faults(); faults != nil {
		return Decision{}, invalid(faults...)
	}
	ctx, cancel := limited(ctx, c.plan.timeout)
	defer cancel()
	response, err := ask(ctx, c, c.access.CheckApplicationAccess, question.request())
	if err != nil {
		return Decision{}, err
	}
	return decisionOf(response)
}

// CheckApplications checks many questions about applications at once, as CheckMany does about
// queues.
func (c *Client) CheckApplications(ctx context.Context, questions []ApplicationCheck) ([]Result, error) {
	faults := func(i int) []Violation { return questions[i].faults() }
	if err := validateAll(len(questions), faults); err != nil {
		return nil, err
	}
	ctx, cancel := limited(ctx, c.plan.timeout)
	defer cancel()
	results := make([]Result, len(questions))
	all := make([]int, len(questions))
	for i := range all {
		all[i] = i
	}
	asked := func(i int) *queuegatev1.CheckApplicationAccessRequest { return questions[i].request() }
	err := inBatches(all, asked, func(places []int, batch []*queuegatev1.CheckApplicationAccessRequest) error {
		request := &queuegatev1.BatchCheckApplicationAccessRequest{Checks: batch}
		response, err := ask(ctx, c, c.access.BatchCheckApplicationAccess, request)
		if err != nil {
			return err
		}
		return unpackBatch(response.GetResults(), places, results)
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// ExplainApplication does what CheckApplication does, and returns the evaluated lists.
func (c *Client) ExplainApplication(
	ctx context.Context, question ApplicationCheck,
) (ApplicationExplanation, error) {
	if faults := question.faults(); faults != nil {
		return ApplicationExplanation{}, invalid(faults...)
	}
	ctx, cancel := limited(ctx, c.plan.timeout)
	defer cancel()
	request := &queuegatev1.ExplainApplicationAccessRequest{Check: question.request()}
	response, err := ask(ctx, c, c.access.ExplainApplicationAccess, request)
	if err != nil {
		return ApplicationExplanation{}, err
	}
	decision, err := decisionOf(response.GetDecision())
	if err != nil {
		return ApplicationExplanation{}, err
	}
	explained := ApplicationExplanation{Decision: decision, Groups: groupsOf(response.GetGroups())}
	for _, step := range response.GetSteps() {
		list := applicationLists.of(int32(step.GetList()))
		explained.Steps = append(explained.Steps, ApplicationStep{list, step.GetQueue(), step.GetAclText()})
	}
	return explained, nil
}

func (question *ApplicationCheck) request() *queuegatev1.CheckApplicationAccessRequest {
	request := &queuegatev1.CheckApplicationAccessRequest{
		User:        userGroups(question.User, question.Groups, question.NoGroups),
		Partition:   question.Partition,
		Action:      actions[question.Action],
		TargetQueue: question.TargetQueue,
		RealUser:    question.RealUser,
	}
	if spark := question.Spark; spark != nil {
		request.Subject = &queuegatev1.CheckApplicationAccessRequest_Spark{
			Spark: &queuegatev1.SparkApplication{
				Properties: spark.Properties, SparkUser: spark.SparkUser, ProcessUser: spark.ProcessUser,
			},
		}
	} else if stated := question.Application; stated != nil {
		request.Subject = &queuegatev1.CheckApplicationAccessRequest_Application{
			Application: &queuegatev1.Application{
				Queue: stated.Queue, Owner: stated.Owner,
				ViewAcl: stated.ViewACL, ModifyAcl: stated.ModifyACL,
			},
		}
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
		faults = append(faults, Violation{"application", "or spark must be given, and not both"})
	}
	if stated := question.Application; stated != nil {
		faults = appendFault(faults, "application.queue", stated.Queue, required)
		faults = appendFault(faults, "application.owner", stated.Owner, required)
		faults = appendFault(faults, "application.view_acl", stated.ViewACL, optional)
		faults = appendFault(faults, "application.modify_acl", stated.ModifyACL, optional)
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
