package leafd

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Layout is the layout of a snowflake ID: from the top the time, the worker and the sequence, at most 63 bits in all.
// [Status] names the daemon's layout; [ParseLayout] reads it. The zero value is [LayoutLeaf].
type Layout struct {
	unitMS, epochMS                    uint64
	timeBits, workerBits, sequenceBits uint
	// datacenterBits of the worker bits, from the top, are the data centre.
	datacenterBits uint
	// sequenceAboveWorker: the sequence is above the worker.
	sequenceAboveWorker bool
}

var (
	// LayoutLeaf has 41 bits for milliseconds since 2010-11-04, 10 for the worker, 12 for the sequence.
	LayoutLeaf = Layout{unitMS: 1, epochMS: 1288834974657, timeBits: 41, workerBits: 10, sequenceBits: 12}
	// LayoutTwitter is Leaf's, with the worker bits split into 5 for the data centre and 5 for the worker.
	LayoutTwitter = Layout{unitMS: 1, epochMS: 1288834974657, timeBits: 41, workerBits: 10, sequenceBits: 12,
		datacenterBits: 5}
	// LayoutBaidu has 28 bits for seconds since 2016-05-20, 22 for the worker, 13 for the sequence. Its time ran
	// out on 2024-11-20; new IDs need a later epoch, as in baidu@2026-01-01.
	LayoutBaidu = Layout{unitMS: 1000, epochMS: 1463673600000, timeBits: 28, workerBits: 22, sequenceBits: 13}
	// LayoutJS has 53 bits, which fit a double: 37 for units of 10 ms since 2026-01-01, 8 for the worker, 8 for the
	// sequence.
	LayoutJS = Layout{unitMS: 10, epochMS: 1767225600000, timeBits: 37, workerBits: 8, sequenceBits: 8}
	// LayoutSonyflake is Sonyflake's: 39 bits for units of 10 ms since 2014-09-01, 8 for the sequence, 16 for the
	// worker below it.
	LayoutSonyflake = Layout{unitMS: 10, epochMS: 1409529600000, timeBits: 39, workerBits: 16, sequenceBits: 8,
		sequenceAboveWorker: true}
	// LayoutDiscord is Discord's: Twitter's with milliseconds since 2015-01-01.
	LayoutDiscord = Layout{unitMS: 1, epochMS: 1420070400000, timeBits: 41, workerBits: 10, sequenceBits: 12,
		datacenterBits: 5}
)

// Decoded are the parts of a snowflake ID.
type Decoded struct {
	// UnixMS is the start of the ID's time unit, in milliseconds since 1970. It saturates at 2^64 − 1.
	UnixMS uint64
	// Worker is the worker ID, data centre bits included.
	Worker uint64
	// Datacenter is the data centre, if the layout has one.
	Datacenter uint64
	// Sequence is the number within the time unit.
	Sequence uint64
}

// Time is the start of the ID's time unit.
func (decoded Decoded) Time() time.Time {
	if decoded.UnixMS > math.MaxInt64 {
		return time.UnixMilli(math.MaxInt64)
	}
	return time.UnixMilli(int64(decoded.UnixMS))
}

// Decode splits an ID into its parts. A negative ID is invalid.
func (layout Layout) Decode(id int64) (Decoded, error) {
	if id < 0 {
		return Decoded{}, invalidf("%d is negative, so it is no snowflake ID", id)
	}
	layout = layout.orLeaf()
	value := uint64(id)
	units := value >> (layout.workerBits + layout.sequenceBits)
	if units>>layout.timeBits != 0 {
		return Decoded{}, invalidf("%d has more than the %d bits of this layout", id,
			layout.timeBits+layout.workerBits+layout.sequenceBits)
	}
	workerAt, sequenceAt := layout.shifts()
	worker := value >> workerAt & (1<<layout.workerBits - 1)
	decoded := Decoded{Worker: worker, Sequence: value >> sequenceAt & (1<<layout.sequenceBits - 1)}
	if layout.datacenterBits > 0 {
		decoded.Datacenter = worker >> (layout.workerBits - layout.datacenterBits)
	}
	high, ms := bits.Mul64(units, layout.unitMS)
	sum, carry := bits.Add64(ms, layout.epochMS, 0)
	if high != 0 || carry != 0 {
		sum = math.MaxUint64
	}
	decoded.UnixMS = sum
	return decoded, nil
}

// Compose is the ID of these parts, the inverse of Decode. The units of time, [Layout.UnitMS] each, count from
// [Layout.EpochMS]. A part that does not fit its bits is invalid.
func (layout Layout) Compose(units, worker, sequence uint64) (int64, error) {
	layout = layout.orLeaf()
	for _, part := range []struct {
		name        string
		value, bits uint64
	}{
		{"time", units, uint64(layout.timeBits)},
		{"worker", worker, uint64(layout.workerBits)},
		{"sequence", sequence, uint64(layout.sequenceBits)},
	} {
		if part.value>>part.bits != 0 {
			return 0, invalidf("the %s %d has more than the %d bits that this layout has for it", part.name, part.value,
				part.bits)
		}
	}
	workerAt, sequenceAt := layout.shifts()
	return int64(units<<(layout.workerBits+layout.sequenceBits) | worker<<workerAt | sequence<<sequenceAt), nil
}

// TimeBits is how many bits the time has.
func (layout Layout) TimeBits() uint { return layout.orLeaf().timeBits }

// WorkerBits is how many bits the worker has, those of the data centre included.
func (layout Layout) WorkerBits() uint { return layout.orLeaf().workerBits }

// SequenceBits is how many bits the sequence has.
func (layout Layout) SequenceBits() uint { return layout.orLeaf().sequenceBits }

// EpochMS is the time 0, in milliseconds since 1970.
func (layout Layout) EpochMS() uint64 { return layout.orLeaf().epochMS }

// UnitMS is the unit of the time: 1, 10 or 1000 ms.
func (layout Layout) UnitMS() uint64 { return layout.orLeaf().unitMS }

// orLeaf is the layout that a zero value stands for.
func (layout Layout) orLeaf() Layout {
	if layout == (Layout{}) {
		return LayoutLeaf
	}
	return layout
}

// shifts are the places of worker and sequence, counted from the lowest bit.
func (layout Layout) shifts() (worker, sequence uint) {
	if layout.sequenceAboveWorker {
		return 0, layout.workerBits
	}
	return layout.sequenceBits, 0
}

// String writes TIME/WORKER/SEQUENCE@EPOCH_MS/UNITms, or TIME/sSEQUENCE/wWORKER@EPOCH_MS/UNITms with the sequence above
// the worker: forms that [ParseLayout] reads.
func (layout Layout) String() string {
	layout = layout.orLeaf()
	worker := fmt.Sprint(layout.workerBits)
	if layout.datacenterBits > 0 {
		worker = fmt.Sprintf("%d+%d", layout.datacenterBits, layout.workerBits-layout.datacenterBits)
	}
	low := fmt.Sprintf("%s/%d", worker, layout.sequenceBits)
	if layout.sequenceAboveWorker {
		low = fmt.Sprintf("s%d/w%s", layout.sequenceBits, worker)
	}
	return fmt.Sprintf("%d/%s@%d/%dms", layout.timeBits, low, layout.epochMS, layout.unitMS)
}

// ParseLayout reads a preset (leaf, twitter, baidu, js, sonyflake, discord), a preset with another epoch
// (baidu@2026-01-01), or TIME/WORKER/SEQUENCE@EPOCH/UNITms, as in 41/10/12@1288834974657/1ms, where the unit is 1 ms if
// it is left out. TIME/sSEQUENCE/wWORKER@EPOCH/UNITms has the sequence above the worker. An
// epoch is in milliseconds since 1970, or a date in UTC: 2026-01-01, 2010-11-04T01:42:54.657Z.
func ParseLayout(text string) (Layout, error) {
	layout, ok := parseLayout(text)
	if !ok {
		return Layout{}, invalidf("layout %q is neither a preset (leaf, twitter, baidu, js, sonyflake, discord, each "+
			"with an optional epoch) nor TIME/WORKER/SEQUENCE@EPOCH/UNITms or TIME/sSEQUENCE/wWORKER@EPOCH/UNITms with "+
			"at most 63 bits in all and a unit of 1, 10 or 1000 ms", text)
	}
	return layout, nil
}

func parseLayout(text string) (Layout, bool) {
	fields, rest, hasEpoch := strings.Cut(text, "@")
	presets := map[string]Layout{"leaf": LayoutLeaf, "twitter": LayoutTwitter, "baidu": LayoutBaidu, "js": LayoutJS,
		"sonyflake": LayoutSonyflake, "discord": LayoutDiscord}
	if layout, isPreset := presets[fields]; isPreset {
		if !hasEpoch {
			return layout, true
		}
		epoch, ok := parseEpoch(rest)
		layout.epochMS = epoch
		return layout, ok
	}
	layout := Layout{unitMS: 1}
	epoch, unit, hasUnit := strings.Cut(rest, "/")
	if hasUnit {
		switch unit {
		case "1ms":
		case "10ms":
			layout.unitMS = 10
		case "1000ms":
			layout.unitMS = 1000
		default:
			return Layout{}, false
		}
	}
	parts := strings.Split(fields, "/")
	if len(parts) != 3 {
		return Layout{}, false
	}
	if strings.HasPrefix(parts[1], "s") && strings.HasPrefix(parts[2], "w") {
		layout.sequenceAboveWorker, parts[1], parts[2] = true, parts[2][1:], parts[1][1:]
	}
	if upper, lower, isSplit := strings.Cut(parts[1], "+"); isSplit {
		datacenter, ok1 := parseBits(upper)
		worker, ok2 := parseBits(lower)
		if !ok1 || !ok2 {
			return Layout{}, false
		}
		layout.datacenterBits, parts[1] = datacenter, fmt.Sprint(datacenter+worker)
	}
	for i, into := range []*uint{&layout.timeBits, &layout.workerBits, &layout.sequenceBits} {
		count, ok := parseBits(parts[i])
		if !ok {
			return Layout{}, false
		}
		*into = count
	}
	var ok bool
	layout.epochMS, ok = parseEpoch(epoch)
	sum := layout.timeBits + layout.workerBits + layout.sequenceBits
	return layout, ok && sum <= 63 && layout.timeBits > 0 && layout.sequenceBits > 0
}

func parseBits(text string) (uint, bool) {
	count, err := strconv.ParseUint(text, 10, 6)
	return uint(count), err == nil
}

func parseEpoch(text string) (uint64, bool) {
	if epoch, err := strconv.ParseUint(text, 10, 64); err == nil {
		return epoch, true
	}
	for _, form := range []string{"2006-01-02", "2006-01-02T15:04:05Z", "2006-01-02T15:04:05.000Z"} {
		// The length as well: Parse accepts fractions of seconds that the form does not have.
		if at, err := time.Parse(form, text); err == nil && len(text) == len(form) && at.Year() >= 1970 {
			return uint64(at.UnixMilli()), true
		}
	}
	return 0, false
}
