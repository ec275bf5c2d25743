package leafd

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestIDsAreDecodedAsJavaLeafComposesThem(t *testing.T) {
	// (timestamp - twepoch) << 22 | workerId << 12 | sequence
	const id = (1600000000000-1288834974657)<<22 | 513<<12 | 77
	want := Decoded{UnixMS: 1600000000000, Worker: 513, Sequence: 77}
	for _, layout := range []Layout{LayoutLeaf, {}} {
		if got, err := layout.Decode(id); got != want || err != nil {
			t.Error(got, err)
		}
	}
	want.Datacenter = 16
	if got, err := LayoutTwitter.Decode(id); got != want || err != nil {
		t.Error(got, err)
	}
	if !want.Time().Equal(time.UnixMilli(1600000000000)) {
		t.Error(want.Time())
	}
	if _, err := LayoutLeaf.Decode(-1); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

func TestLayoutsAreReadAndWritten(t *testing.T) {
	late := LayoutBaidu
	late.epochMS = 1767225600000
	for text, want := range map[string]Layout{
		"leaf":                               LayoutLeaf,
		"twitter":                            LayoutTwitter,
		"baidu":                              LayoutBaidu,
		"baidu@1767225600000":                late,
		"baidu@2026-01-01":                   late,
		"28/22/13@2026-01-01/1000ms":         late,
		"41/10/12@2010-11-04T01:42:54.657Z":  LayoutLeaf,
		"41/10/12@1288834974657":             LayoutLeaf,
		"41/5+5/12@1288834974657/1ms":        LayoutTwitter,
		"js":                                 LayoutJS,
		"37/8/8@2026-01-01/10ms":             LayoutJS,
		"sonyflake":                          LayoutSonyflake,
		"39/s8/w16@2014-09-01/10ms":          LayoutSonyflake,
		"discord":                            LayoutDiscord,
		"41/5+5/12@2015-01-01":               LayoutDiscord,
		"62/0/1@18446744073709551615/1000ms": {unitMS: 1000, epochMS: math.MaxUint64, timeBits: 62, sequenceBits: 1},
	} {
		got, err := ParseLayout(text)
		if got != want || err != nil {
			t.Errorf("%s: %v %v", text, got, err)
		}
		if again, err := ParseLayout(got.String()); again != want || err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
	for _, text := range []string{"", "leaf2", "leaf@", "baidu@x", "41/10/12", "41/10@0", "41/10/12@-1", "41/9+/12@0",
		"a/b/c@d", "41/10/13@0", "0/51/12@0", "41/22/0@0", "41/10/12@0/2ms", "41/10/12@0/1", "41/10/12/0@0",
		"leaf@2026-02-30", "leaf@1969-01-01", "leaf@2026-01-01T00:00:00.1Z", "64/-1/0@0", "+41/10/12@0"} {
		if layout, err := ParseLayout(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q is %v", text, layout)
		}
	}
	top, _ := ParseLayout("62/0/1@0/1000ms")
	if got, err := top.Decode(math.MaxInt64); got.UnixMS != math.MaxUint64 || err != nil {
		t.Error(got, err)
	}
}

func TestPresetsOfOtherSystemsSplitTheirIDs(t *testing.T) {
	for _, preset := range []struct {
		layout  Layout
		id      int64
		decoded Decoded
	}{
		// time << 16 | worker << 8 | sequence
		{LayoutJS, 123456<<16 | 5<<8 | 7, Decoded{UnixMS: 1767225600000 + 1234560, Worker: 5, Sequence: 7}},
		// Sonyflake has the sequence above the machine.
		{LayoutSonyflake, 123456<<24 | 7<<16 | 513, Decoded{UnixMS: 1409529600000 + 1234560, Worker: 513, Sequence: 7}},
		// The example of Discord's documentation.
		{LayoutDiscord, 175928847299117063, Decoded{UnixMS: 1462015105796, Worker: 1<<5 | 0, Datacenter: 1, Sequence: 7}},
	} {
		if got, err := preset.layout.Decode(preset.id); got != preset.decoded || err != nil {
			t.Errorf("%v: %v %v", preset.layout, got, err)
		}
		units := uint64(preset.id) >> (preset.layout.WorkerBits() + preset.layout.SequenceBits())
		id, err := preset.layout.Compose(units, preset.decoded.Worker, preset.decoded.Sequence)
		if id != preset.id || err != nil {
			t.Errorf("%v: %d %v", preset.layout, id, err)
		}
	}
}

func TestPartsThatDoNotFitAreNotComposed(t *testing.T) {
	if id, err := LayoutLeaf.Compose(1<<41-1, 1<<10-1, 1<<12-1); id != math.MaxInt64 || err != nil {
		t.Error(id, err)
	}
	for _, parts := range [][3]uint64{{1 << 41, 0, 0}, {0, 1 << 10, 0}, {0, 0, 1 << 12}, {math.MaxUint64, 0, 0}} {
		if id, err := LayoutLeaf.Compose(parts[0], parts[1], parts[2]); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v is %d", parts, id)
		}
	}
}

func TestTheZeroLayoutIsLeafs(t *testing.T) {
	zero := Layout{}
	if zero.String() != LayoutLeaf.String() || zero.UnitMS() != 1 || zero.EpochMS() != LayoutLeaf.EpochMS() ||
		zero.TimeBits() != 41 {
		t.Error(zero)
	}
	if id, err := zero.Compose(1, 2, 3); id != 1<<22|2<<12|3 || err != nil {
		t.Error(id, err)
	}
}
