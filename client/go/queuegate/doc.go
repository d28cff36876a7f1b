// Package queuegate checks with a queuegate server whether a user may use a queue, and why.
//
//	client, err := queuegate.New(queuegate.Config{Address: "127.0.0.1:50051"})
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	decision, err := client.Check(ctx, queuegate.Check{User: "sue", Queue: "root.analytics.reports"})
//	if err != nil {
//		return err // the check failed, which is not a denial
//	}
//	fmt.Println(decision.Allowed, decision.Reason)
//
// A denial is a decision, not an error. Every error of a call is an [*Error] and wraps one of the Err
// values, which say whether the request must change ([ErrRequestRejected]) or a retry may succeed
// ([ErrUnavailable]). A decision returned with an error never grants access.
//
// The time limit of a call is the context's deadline, or else [Config.Timeout].
//
// A [Gate] decides in the calling process, in less than a microsecond and even while the server
// restarts, from a copy of the policy kept current by the server.
//
// Explanations, lists of users, policies and other reports are messages of the contract, defined with
// the generated stubs in package queuegatev1, in the folder v1.
package queuegate
