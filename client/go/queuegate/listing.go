package queuegate

import (
	"context"
	"fmt"
	"iter"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

const maxPageSize = 1_000

// A QueueListing requests the queues that a user may use.
type QueueListing struct {
	// User is the name of the user. Required.
	User string
	// Prefix limits the list to this queue and the queues below it. If empty, all queues are listed.
	Prefix string
	// Partition, Access, Groups, NoGroups and RealUser are as in [Check].
	Partition string
	Access    Access
	Groups    []string
	NoGroups  bool
	RealUser  string
}

// ListQueues lists the full paths of the configured queues that a user may use, sorted.
func (c *Client) ListQueues(ctx context.Context, listing QueueListing) ([]string, error) {
	var queues []string
	for response, err := range c.queuePages(ctx, listing, false) {
		if err != nil {
			return nil, err
		}
		queues = append(queues, response.GetQueues()...)
	}
	return queues, nil
}

// A UsableQueue is a queue that a user may use.
type UsableQueue struct {
	// Queue is the full path of the queue.
	Queue string
	// Via is the ACL entry that grants access in a check.
	Via *queuegatev1.AccessGrant
}

// ExplainQueues runs [Client.ListQueues], and returns the ACL entries that grant access as well.
func (c *Client) ExplainQueues(ctx context.Context, listing QueueListing) ([]UsableQueue, error) {
	var queues []UsableQueue
	for response, err := range c.queuePages(ctx, listing, true) {
		if err != nil {
			return nil, err
		}
		paths, via := response.GetQueues(), response.GetVia()
		if len(paths) != len(via) {
			return nil, contractViolated(
				"the server returned %d queues with %d entries: it may be older than this client",
				len(paths), len(via))
		}
		for i, path := range paths {
			queues = append(queues, UsableQueue{path, via[i]})
		}
	}
	return queues, nil
}

func (c *Client) queuePages(
	ctx context.Context, listing QueueListing, withVia bool,
) iter.Seq2[*queuegatev1.ListQueuesResponse, error] {
	faults := questionFaults(listing.User, listing.Groups, listing.NoGroups, listing.Access)
	faults = appendFault(faults, "prefix", listing.Prefix, optional)
	faults = appendFault(faults, "partition", listing.Partition, optional)
	faults = appendFault(faults, "real_user", listing.RealUser, optional)
	return func(yield func(*queuegatev1.ListQueuesResponse, error) bool) {
		ctx, cancel := limited(ctx, c.plan.timeout)
		defer cancel()
		pages(func(token string) (*queuegatev1.ListQueuesResponse, error) {
			return ask(ctx, c, c.plan.timeout, c.access.ListQueues, &queuegatev1.ListQueuesRequest{
				User:      userGroups(listing.User, listing.Groups, listing.NoGroups),
				Partition: listing.Partition,
				Access:    listing.Access.number(),
				Prefix:    listing.Prefix,
				PageSize:  10_000,
				PageToken: token,
				RealUser:  listing.RealUser,
				WithVia:   withVia,
			}, faults...)
		})(yield)
	}
}

// A UserListing requests the users who may use a queue.
type UserListing struct {
	// Queue is the full path of the queue, for example root.a.b. Required.
	Queue string
	// Partition and Access are as in [Check].
	Partition string
	Access    Access
	// PageSize is the number of users on a page, at most 1 000. Defaults to the server's.
	PageSize int
}

// ListUsers lists the users who may use a queue, page by page. The server expands the groups in the
// queue's ACLs, and checks each user on a page.
//
// If Complete is false, users may be missing. If the policy changes between two pages, the error is
// [ErrInvalidArgument]; start over. No page follows an error. Without a deadline in the context, each
// page times out after 30 s.
func (c *Client) ListUsers(
	ctx context.Context, listing UserListing,
) iter.Seq2[*queuegatev1.ListUsersResponse, error] {
	faults := appendFault(nil, "queue", listing.Queue, required)
	faults = appendFault(faults, "partition", listing.Partition, optional)
	faults = append(faults, listing.Access.faults()...)
	if listing.PageSize < 0 || listing.PageSize > maxPageSize {
		faults = append(faults, Violation{
			"page_size", fmt.Sprintf("must be from 0 to %d, not %d", maxPageSize, listing.PageSize),
		})
	}
	return pages(func(token string) (*queuegatev1.ListUsersResponse, error) {
		return ask(ctx, c, policyTimeout, c.access.ListUsers, &queuegatev1.ListUsersRequest{
			Queue:     listing.Queue,
			Partition: listing.Partition,
			Access:    listing.Access.number(),
			PageSize:  int32(listing.PageSize),
			PageToken: token,
		}, faults...)
	})
}
