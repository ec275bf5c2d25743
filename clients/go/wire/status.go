package wire

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Status is the state of a daemon. As JSON, its 64-bit numbers are strings.
type Status struct {
	// Version is the version of the daemon, as in 0.1.0.
	Version string `json:"version"`
	// PID is the daemon's process ID, as it sees itself.
	PID uint32 `json:"pid"`
	// UptimeMS is the time since the daemon became ready.
	UptimeMS uint64 `json:"uptime_ms,string"`
	// Connections counts the open connections, this one included.
	Connections uint32 `json:"connections"`
	// Requests counts the requests for IDs since the start, refused ones included.
	Requests uint64 `json:"requests,string"`
	// StateDir is where the daemon keeps its state.
	StateDir string `json:"state_dir"`
	// Segments are the totals of all tags.
	Segments SegmentTotals `json:"segments"`
	// Snowflake is the state of the snowflake generator.
	Snowflake SnowflakeStatus `json:"snowflake"`
}

// SegmentTotals are the totals of all tags, and the state of the store.
type SegmentTotals struct {
	// Store is the store in words, without passwords.
	Store string `json:"store"`
	// StoreError says why the store does not work; empty while it works.
	StoreError string `json:"store_error"`
	// Tags counts the tags known to the daemon.
	Tags uint64 `json:"tags,string"`
	// Waiting counts the requests that wait for a range now.
	Waiting uint64 `json:"waiting,string"`
	// Issued counts the IDs issued since the start.
	Issued uint64 `json:"issued,string"`
	// Leases counts the leases taken since the start.
	Leases uint64 `json:"leases,string"`
}

// SnowflakeStatus is the state of the snowflake generator. Times are in milliseconds since 1970.
type SnowflakeStatus struct {
	// State says whether IDs are issued.
	State SnowflakeState `json:"state"`
	// Worker is the worker ID; nil before the daemon has one.
	Worker *uint64 `json:"worker,string"`
	// Registry is where the worker ID comes from: fixed, zookeeper.
	Registry string `json:"registry"`
	// Layout is the layout of the IDs, in the form that leafd.ParseLayout reads.
	Layout string `json:"layout"`
	// CeilingUnixMS: nothing is issued at or past it before it is raised on disk.
	CeilingUnixMS uint64 `json:"ceiling_unix_ms,string"`
	// LastUnixMS is the time of the last ID issued; 0 before the first.
	LastUnixMS uint64 `json:"last_unix_ms,string"`
	// ClockUnixMS is the daemon's clock.
	ClockUnixMS uint64 `json:"clock_unix_ms,string"`
	// Issued counts the IDs issued since the start.
	Issued uint64 `json:"issued,string"`
	// Identity is the daemon's identity in the registry; empty if it needs none.
	Identity string `json:"identity"`
	// LastReportMSAgo is the time since the registry last took a report; nil before the first.
	LastReportMSAgo *uint64 `json:"last_report_ms_ago,string"`
	// RegistryError is the registry's error from its last call; empty if that call succeeded.
	RegistryError string `json:"registry_error"`
	// LimitUnixMS: without another report nothing is issued at or past it; nil if reports set no limit.
	LimitUnixMS *uint64 `json:"limit_unix_ms,string"`
	// ClockOffsetMS is the mean of the live peers' clocks minus the daemon's; nil if no peer answered.
	ClockOffsetMS *int64 `json:"clock_offset_ms,string"`
	// Peers counts the peers that answered that check.
	Peers uint32 `json:"peers"`
}

// StateKind says whether the daemon issues snowflake IDs.
type StateKind uint32

const (
	// Serving: the daemon issues snowflake IDs.
	Serving StateKind = iota
	// ClockBehind: the clock is behind the times already used. This ends by itself.
	ClockBehind
	// Refused: the daemon issues no snowflake IDs.
	Refused
	// Starting: the daemon is claiming its worker ID. Requests wait for it.
	Starting
)

var stateNames = [...]string{"Serving", "ClockBehind", "Refused", "Starting"}

// String returns the name in docs/protocol.md.
func (kind StateKind) String() string {
	if int(kind) < len(stateNames) {
		return stateNames[kind]
	}
	return "StateKind(" + strconv.FormatUint(uint64(kind), 10) + ")"
}

// SnowflakeState is a [StateKind] with its particulars.
type SnowflakeState struct {
	Kind StateKind
	// BehindMS belongs to [ClockBehind]: how far the clock is behind.
	BehindMS uint64
	// Reason belongs to [Refused] and [Starting].
	Reason string
}

// MarshalJSON writes the name as "variant", and the fields that belong to it.
func (state SnowflakeState) MarshalJSON() ([]byte, error) {
	fields := map[string]string{"variant": state.Kind.String()}
	switch state.Kind {
	case ClockBehind:
		fields["behind_ms"] = strconv.FormatUint(state.BehindMS, 10)
	case Refused, Starting:
		fields["reason"] = state.Reason
	}
	return json.Marshal(fields)
}

func (in *reader) status() *Status {
	return &Status{
		Version:     in.str(),
		PID:         in.u32(),
		UptimeMS:    in.u64(),
		Connections: in.u32(),
		Requests:    in.u64(),
		StateDir:    in.str(),
		Segments: SegmentTotals{
			Store:      in.str(),
			StoreError: in.str(),
			Tags:       in.u64(),
			Waiting:    in.u64(),
			Issued:     in.u64(),
			Leases:     in.u64(),
		},
		Snowflake: SnowflakeStatus{
			State:           in.state(),
			Worker:          in.optU64(),
			Registry:        in.str(),
			Layout:          in.str(),
			CeilingUnixMS:   in.u64(),
			LastUnixMS:      in.u64(),
			ClockUnixMS:     in.u64(),
			Issued:          in.u64(),
			Identity:        in.str(),
			LastReportMSAgo: in.optU64(),
			RegistryError:   in.str(),
			LimitUnixMS:     in.optU64(),
			ClockOffsetMS:   in.optI64(),
			Peers:           in.u32(),
		},
	}
}

func (in *reader) state() SnowflakeState {
	state := SnowflakeState{Kind: StateKind(in.u32())}
	switch state.Kind {
	case Serving:
	case ClockBehind:
		state.BehindMS = in.u64()
	case Refused, Starting:
		state.Reason = in.str()
	default:
		in.fail(fmt.Errorf("unknown state %d", uint32(state.Kind)))
	}
	return state
}
