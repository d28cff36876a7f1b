package queuegate

import (
	"context"
	"fmt"
	"iter"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

const maxPageSize = 1_000

// A UserListing asks which users may use a queue.
type UserListing struct {
	// Queue is the full path of the queue, for example root.a.b. Required.
	Queue string
	// Partition and Access are as in [Check].
	Partition string
	Access    Access
	// PageSize is the number of users on a page, at most 1 000. 0: the server's default.
	PageSize int
}

// ListUsers lists the users who may use a queue, page by page. The server expands the groups in
// the ACLs of the queue, and decides a check of each user on a page.
//
// Look at Complete: if it is false, users are missing. A policy that changes between two pages is
// an [ErrInvalidArgument]: start again. An error ends the pages. Without a deadline in the context
// each page takes up to 30 s.
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
