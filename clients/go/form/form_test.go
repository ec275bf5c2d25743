package form_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand"
	"strings"
	"testing"
	"time"

	"leafd.invalid/leafd"
	"leafd.invalid/leafd/form"
)

// says checks that an error is about an argument and holds all of the words.
func says(t *testing.T, err error, words ...string) {
	t.Helper()
	if !errors.Is(err, leafd.ErrInvalid) {
		t.Errorf("%v is about no argument", err)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q lacks %q", err, word)
		}
	}
}

func TestErrorsNameTheTextTheFirstWrongCharacterAndTheRemedy(t *testing.T) {
	for _, one := range []struct {
		form, text string
		words      []string
	}{
		{"decimal", "12x4y", []string{`"12x4y"`, "character 3 is 'x'", "a decimal digit is expected"}},
		{"decimal", "017", []string{"character 1 is '0'", "one zero too many"}},
		{"ord_padded4", "ord_17", []string{"2 digits instead of at least 4"}},
		{"base62", "0000000000é", []string{"character 11 is 'é'", "a letter of a to z or A to Z"}},
		{"base62", "0000", []string{"4 characters instead of 11"}},
		{"base36", "000000000000A", []string{"character 13 is 'A'", "write lowercase letters"}},
		{"base36", "zzzzzzzzzzzzz", []string{"above 2^63 - 1"}},
		{"crockford32", "000000000000OH", []string{"character 13 is 'O'", "write the digit 0"}},
		{"crockford32", "00000000000lHH", []string{"character 12 is 'l'", "write the digit 1"}},
		{"crockford32", "000000000000hH", []string{"character 13 is 'h'", "write capital letters"}},
		{"crockford32", "000000000000HL", []string{"character 14 is 'L'", "a check symbol is expected"}},
		{"crockford32", "000000000000HG", []string{"the check symbol is 'G', but 'H' belongs", "mistyped"}},
		{"crockford32", "0000000000000", []string{"13 characters instead of 14"}},
		{"ord_base62", "orx_0000000000H", []string{"character 3 is 'x'", `the prefix "ord_" is expected`}},
		{"ord_base62", "ord", []string{`it ends within the prefix "ord_"`}},
		{"ord_base62", "ord_000000000-H", []string{"character 14 is '-'"}},
		{"ord_base62", "ord_H", []string{"5 characters instead of 15"}},
	} {
		_, err := form.Decode(one.form, one.text)
		says(t, err, one.words...)
	}
	_, _, err := form.ReadDated("2026x122-000017")
	says(t, err, "character 5 is 'x'", "20261122-000017")
	_, _, err = form.ReadDated("20261122_000017")
	says(t, err, "character 9 is '_'", "a hyphen is expected")
	_, _, err = form.ReadDated("20260229-000017")
	says(t, err, "20260229 is no date")
	_, _, err = form.ReadDated("20261122-0000é7")
	says(t, err, "character 14 is 'é'")
}

func TestAnErrorShowsOnlyTheBeginningOfALongText(t *testing.T) {
	long := strings.Repeat("0", 1_000_000)
	for _, name := range []string{"decimal", "base62", "crockford32", "padded"} {
		_, err := form.Decode(name, long)
		says(t, err, "…")
		if len(err.Error()) > 400 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
	_, err := form.Encode(long, 1)
	says(t, err, "there is no text form")
	_, err = form.ParseFleet(long)
	says(t, err, "1000000 characters")
}

func TestFormsThatDoNotExistAreRefused(t *testing.T) {
	for _, name := range []string{"", "base64", "Base62", "uuid7", "dated", "ord-base62", "ord_", "base62_"} {
		_, err := form.Encode(name, 1)
		says(t, err, "there is no text form", "crockford32", "Snowflakes")
	}
	for _, name := range []string{"padded0", "padded20", "padded08", "padded+8", "padded-1", "padded_", "padded1_0"} {
		if text, err := form.Encode(name, 1); !errors.Is(err, leafd.ErrInvalid) {
			t.Errorf("%s is %s", name, text)
		}
	}
	for _, prefix := range []string{"", "_", "_a", "a_", "Ord", "ord1", "örd", strings.Repeat("a", 64)} {
		_, err := form.Encode(prefix+"_base62", 1)
		says(t, err, "1 to 63 lowercase letters")
	}
	longest := strings.Repeat("a", 63) + "_decimal"
	if text, err := form.Encode(longest, 1); text != strings.Repeat("a", 63)+"_1" || err != nil {
		t.Error(text, err)
	}
	snowflakes := form.NewSnowflakes(leafd.LayoutLeaf, form.Fleet{})
	_, err := snowflakes.Encode("base62", 1)
	says(t, err, "uuid7, uuid8, uuid1 and objectid")
	_, err = snowflakes.Decode("uuid5", "de294177-21a1-5baa-95bd-bdfa16fa7a9e")
	says(t, err, "hash")
	for _, name := range []string{"uuid7", "uuid8", "uuid1", "objectid"} {
		_, err := snowflakes.Encode(name, -1)
		says(t, err, "-1 is negative")
	}
	_, err = form.Encode("base62", math.MinInt64)
	says(t, err, "-9223372036854775808 is negative")
	_, err = form.UUID5(form.Fleet{}, "orders", -1)
	says(t, err, "-1 is negative")
}

func TestATimeIsOfTheDayThatItsZoneHas(t *testing.T) {
	for _, zone := range []string{"", "utc", "Z", "+8:00", "+08:60", "08:00", "+0800", "+18:01", "-19:00", "+08:00 ",
		"+08:00\n", "+٠٨:00"} {
		_, err := form.DayOf(time.UnixMilli(0), zone)
		says(t, err, "write UTC")
	}
	for _, one := range []struct {
		unix int64
		zone string
		want string
	}{
		{86399 - 18*3600, "+18:00", "19700101"},
		{86400 - 18*3600, "+18:00", "19700102"},
		{86400 + 18*3600 - 1, "-18:00", "19700101"},
		{86400 + 18*3600, "-18:00", "19700102"},
		{-1, "UTC", "19700101"},
		{math.MinInt64, "-18:00", "19700101"},
		{math.MaxInt64, "+18:00", "99991231"},
		{253402300799, "UTC", "99991231"},
		{253402300799, "+18:00", "99991231"},
		{253402300800, "UTC", "99991231"},
		{253402300799, "-18:00", "99991231"},
		{253402214400 + 18*3600 - 1, "-18:00", "99991230"},
	} {
		if day, err := form.DayOf(time.Unix(one.unix, 0), one.zone); day.String() != one.want || err != nil {
			t.Errorf("%d in %s is %v, not %s: %v", one.unix, one.zone, day, one.want, err)
		}
	}
	if day, _ := form.DayOf(time.UnixMilli(-1), "UTC"); day != (form.Day{}) {
		t.Error(day)
	}
}

func TestADayIsADateOfTheCalendar(t *testing.T) {
	day, err := form.NewDay(2028, time.February, 29)
	if year, month, of := day.Date(); year != 2028 || month != time.February || of != 29 || err != nil {
		t.Error(day, err)
	}
	for _, date := range [][3]int{{2027, 2, 29}, {1969, 12, 31}, {10000, 1, 1}, {2026, 13, 1}, {2026, 0, 1},
		{2026, 1, 0}} {
		_, err := form.NewDay(date[0], time.Month(date[1]), date[2])
		says(t, err, "is no date")
	}
	_, err = day.Text(-1)
	says(t, err, "-1 is negative")
}

func TestWhatAnotherInstallationMadeIsRefused(t *testing.T) {
	here := form.NewSnowflakes(leafd.LayoutLeaf, parseFleet(t, "4be1f0a37c"))
	there := form.NewSnowflakes(leafd.LayoutLeaf, parseFleet(t, "0000000001"))
	for _, name := range []string{"uuid7", "uuid8", "uuid1", "objectid"} {
		text, err := there.Encode(name, 1)
		if err != nil {
			t.Error(err)
		}
		_, err = here.Decode(name, text)
		says(t, err, text, "4be1f0a37c", "another installation")
	}
	for _, text := range []string{"", "4be1f0a37", "4be1f0a37c0", "4BE1F0A37C", "4be1f0a37g", "+be1f0a37c", "4be1f0a37é"} {
		_, err := form.ParseFleet(text)
		says(t, err, "10 lowercase hexadecimal digits")
	}
}

func TestUUIDsAndObjectIDsConvertToBytesAndBack(t *testing.T) {
	uuid, err := form.ParseUUID("01a1fcd4-5c07-7000-8000-474be1f0a37c")
	if bytes := [16]byte(uuid); bytes[0] != 1 || bytes[15] != 0x7c || uuid.Version() != 7 || err != nil {
		t.Error(uuid, err)
	}
	id, err := form.ParseObjectID("6b013c820dc000000474be1f")
	if bytes := [12]byte(id); bytes[0] != 0x6b || bytes[11] != 0x1f || err != nil {
		t.Error(id, err)
	}
	snowflakes := form.NewSnowflakes(leafd.LayoutLeaf, parseFleet(t, "4be1f0a37c"))
	if got, err := snowflakes.UUID7(2124029785372885063); got != uuid || err != nil {
		t.Error(got, err)
	}
	for text, word := range map[string]string{
		"01a1fcd4-5c07-7000-8000-474be1f0a37cé":       "character 37 is 'é'",
		"01A1fcd4-5c07-7000-8000-474be1f0a37c":        "write lowercase letters",
		"01a1fcd4x5c07-7000-8000-474be1f0a37c":        "a hyphen is expected",
		"01a1fcd4-5c07-7000-8000-474be1f0a37":         "35 characters instead of the 36",
		"01a1fcd4-5c07-7000-8000-474be1f0a37\u00ffff": "character 36 is 'ÿ'",
	} {
		_, err := snowflakes.Decode("uuid7", text)
		says(t, err, word)
	}
	for text, word := range map[string]string{
		"de294177-21a1-5baa-95bd-bdfa16fa7a9e": "hash",
		"01a1fcd4-5c07-4000-8000-474be1f0a37c": "version 4",
		"01a1fcd4-5c07-7000-c000-474be1f0a37c": "character 20 is 'c'",
	} {
		uuid, err := form.ParseUUID(text)
		if err != nil {
			t.Error(err)
		}
		_, err = snowflakes.IDOf(uuid)
		says(t, err, word)
	}
}

func TestAnyLayoutGivesFormsThatTurnBackOrNone(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	fleet := parseFleet(t, "4be1f0a37c")
	made := map[string]int{}
	for round := 0; round < 20_000; round++ {
		sequence := 1 + random.Intn(30)
		worker := random.Intn(63 - sequence)
		bits := 1 + random.Intn(63-sequence-worker)
		text := fmt.Sprintf("%d/%d/%d", bits, worker, sequence)
		if random.Intn(2) == 0 {
			text = fmt.Sprintf("%d/s%d/w%d", bits, sequence, worker)
		}
		epoch := random.Uint64() >> random.Intn(64)
		layout, err := leafd.ParseLayout(fmt.Sprintf("%s@%d/%dms", text, epoch, []int{1, 10, 1000}[random.Intn(3)]))
		if err != nil {
			t.Fatal(err)
		}
		snowflakes := form.NewSnowflakes(layout, fleet)
		id := random.Int63() >> (63 - bits - worker - sequence) >> random.Intn(bits+worker+sequence)
		for _, name := range []string{"uuid7", "uuid8", "uuid1", "objectid"} {
			text, err := snowflakes.Encode(name, id)
			if err != nil {
				says(t, err, "no room")
				continue
			}
			made[name]++
			if read, err := snowflakes.Decode(name, text); read != id || err != nil {
				t.Fatalf("%v: %s %s is %d, not %d: %v", layout, name, text, read, id, err)
			}
		}
	}
	if len(made) != 4 || made["uuid1"] < 100 || made["uuid7"] < 100 || made["objectid"] < 100 {
		t.Error(made)
	}
}

func TestAnyUUIDOfTheFleetIsOfOneSnowflakeOrNone(t *testing.T) {
	random := rand.New(rand.NewSource(2))
	read := 0
	for _, name := range []string{"leaf", "baidu@2026-01-01", "js", "sonyflake", "20/30/13@2026-01-01/1000ms"} {
		snowflakes := snowflakes(t, name, "4be1f0a37c")
		for round := 0; round < 5_000; round++ {
			text, err := snowflakes.Encode([]string{"uuid7", "uuid8", "uuid1"}[round%3], random.Int63()>>20)
			if err != nil {
				t.Fatal(err)
			}
			uuid, err := form.ParseUUID(text)
			if err != nil {
				t.Fatal(err)
			}
			uuid[random.Intn(16)] ^= 1 << random.Intn(8)
			id, err := snowflakes.IDOf(uuid)
			if err != nil {
				continue
			}
			read++
			again, err := snowflakes.Encode(fmt.Sprintf("uuid%d", uuid.Version()), id)
			if again != uuid.String() || err != nil {
				t.Fatalf("%s: %v is %d, which is %s: %v", name, uuid, id, again, err)
			}
		}
	}
	if read < 1000 {
		t.Error(read)
	}
}
