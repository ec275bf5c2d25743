package leafd

import (
	"math"
	"sort"
	"strconv"

	"leafd.invalid/leafd/wire"
)

// Run stands for the IDs First, First + 1, … First + Count − 1.
type Run struct {
	First int64
	Count int
}

// IDs are the IDs of one call, in the order in which the daemon issued them: as many as were asked for, each once.
// They are kept as runs, so a hundred thousand of them take a few bytes.
type IDs struct {
	runs  []Run
	count int
}

// Len is the number of IDs.
func (ids IDs) Len() int { return ids.count }

// First is the first ID. It panics if there is none, which no call without an error returns.
func (ids IDs) First() int64 { return ids.runs[0].First }

// Runs are the runs of consecutive IDs, in the order of issue.
func (ids IDs) Runs() []Run { return append([]Run(nil), ids.runs...) }

// Slice returns the IDs, 8 bytes each.
func (ids IDs) Slice() []int64 {
	all := make([]int64, 0, ids.count)
	for _, run := range ids.runs {
		for i := 0; i < run.Count; i++ {
			all = append(all, run.First+int64(i))
		}
	}
	return all
}

// Each calls yield for each ID until yield returns false. From Go 1.23 on, that makes
//
//	for id := range ids.Each {
//
// a loop over the IDs.
func (ids IDs) Each(yield func(id int64) bool) {
	for _, run := range ids.runs {
		for i := 0; i < run.Count; i++ {
			if !yield(run.First + int64(i)) {
				return
			}
		}
	}
}

// add appends a run, and joins it with the last one if they are in a row.
func (ids *IDs) add(first int64, count int) {
	ids.count += count
	if last := len(ids.runs) - 1; last >= 0 {
		// Subtract: the end of the highest run does not fit.
		if run := &ids.runs[last]; first > run.First && first-run.First == int64(run.Count) {
			run.Count += count
			return
		}
	}
	ids.runs = append(ids.runs, Run{First: first, Count: count})
}

// checkIDs checks an answer to a request for count IDs: exactly as many, each once, none above 2^63 − 1.
func checkIDs(reply wire.IDs, count int) (IDs, error) {
	ids := IDs{runs: make([]Run, 0, 1+len(reply.More))}
	total := uint64(0)
	for i := -1; i < len(reply.More); i++ {
		run := reply.First
		if i >= 0 {
			run = reply.More[i]
		}
		if run.Count == 0 {
			return IDs{}, protocolErrorf("it sent an empty run of IDs at %d", run.First)
		}
		if run.First > math.MaxInt64 || uint64(run.Count)-1 > math.MaxInt64-run.First {
			return IDs{}, protocolErrorf("it sent %d IDs from %d, which pass 2^63 - 1", run.Count, run.First)
		}
		total += uint64(run.Count)
		if total > uint64(count) {
			return IDs{}, protocolErrorf("it sent more than the %d IDs asked for", count)
		}
		ids.runs = append(ids.runs, Run{First: int64(run.First), Count: int(run.Count)})
	}
	if total != uint64(count) {
		return IDs{}, protocolErrorf("it sent %d IDs instead of %d", total, count)
	}
	ids.count = count
	if id, twice := ids.duplicate(); twice {
		return IDs{}, protocolErrorf("it sent ID %s twice in one answer", strconv.FormatInt(id, 10))
	}
	return ids, nil
}

// duplicate finds an ID that is in two runs.
func (ids IDs) duplicate() (int64, bool) {
	if len(ids.runs) == 1 {
		return 0, false
	}
	byFirst := func(i, j int) bool { return ids.runs[i].First < ids.runs[j].First }
	runs := ids.runs
	if !sort.SliceIsSorted(runs, byFirst) {
		ids.runs = append([]Run(nil), runs...)
		runs = ids.runs
		sort.Slice(runs, byFirst)
	}
	for i := 1; i < len(runs); i++ {
		if runs[i].First-runs[i-1].First < int64(runs[i-1].Count) {
			return runs[i].First, true
		}
	}
	return 0, false
}
