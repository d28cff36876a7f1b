// Package queuegate asks a queuegate server whether a user may use a queue, why, and by which
// groups.
//
//	client, err := queuegate.New(queuegate.Config{Address: "127.0.0.1:50051"})
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	decision, err := client.Check(ctx, queuegate.Check{User: "sue", Queue: "root.analytics.reports"})
//	if err != nil {
//		return err // no answer, which is neither a yes nor a no
//	}
//	fmt.Println(decision.Allowed, decision.Reason)
//
// "Denied" is an answer and never an error. Every error of a call is an [*Error] and wraps one of
// the Err values, which say whether the request has to change ([ErrRequestRejected]) or may
// succeed later ([ErrCouldNotAsk]). The answer that comes with an error grants nothing.
//
// The deadline of the context is the time limit of a call. Without one, it is [Config.Timeout].
//
// A [Gate] decides in the calling process, in less than a microsecond and even while the server
// restarts, from a copy of the policy that the server keeps current.
//
// Explanations, lists of users, policies and other reports are messages of the contract. Package
// queuegatev1, in the folder v1, has them, and the generated stubs.
package queuegate
