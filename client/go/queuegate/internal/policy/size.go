package policy

// Size returns how many queues the partition has, the root included.
func (p *Partition) Size() int { return len(p.queues) }
