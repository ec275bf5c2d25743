package form_test

import (
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"leafd.invalid/leafd"
	"leafd.invalid/leafd/form"
)

// snowflakeForms are the forms of a snowflake, under the names that forms.json has for them.
type snowflakeForms struct {
	ID       string
	UUID7    *string
	UUID8    *string
	UUID1    *string
	ObjectID *string
}

func (forms snowflakeForms) byName() map[string]*string {
	return map[string]*string{"uuid7": forms.UUID7, "uuid8": forms.UUID8, "uuid1": forms.UUID1,
		"objectid": forms.ObjectID}
}

type vectorFile struct {
	Texts   []struct{ Form, ID, Text string }
	Refused []struct{ Form, Text string }
	Days    []struct {
		UnixMS              int64 `json:"unix_ms"`
		Zone, Tag, ID, Text string
	}
	Snowflakes []struct {
		Layout, Written, Fleet string
		IDs                    []snowflakeForms
	}
	RefusedSnowflakes []struct{ Layout, Fleet, Form, Text string } `json:"refused_snowflakes"`
	UUID5             []struct{ Fleet, Tag, ID, Text string }
}

// vectors reads protocol/forms.json of the source tree, which the module does not hold.
func vectors(t *testing.T) vectorFile {
	t.Helper()
	text, err := os.ReadFile("../../../protocol/forms.json")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("protocol/forms.json is part of the source tree only")
	}
	if err != nil {
		t.Fatal(err)
	}
	var file vectorFile
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, count := range []int{len(file.Texts), len(file.Refused), len(file.Days), len(file.Snowflakes),
		len(file.RefusedSnowflakes), len(file.UUID5)} {
		if count < 20 {
			t.Fatalf("only %d vectors", count)
		}
	}
	return file
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func snowflakes(t *testing.T, layout, fleet string) form.Snowflakes {
	t.Helper()
	read, err := leafd.ParseLayout(layout)
	if err != nil {
		t.Fatal(err)
	}
	return form.NewSnowflakes(read, parseFleet(t, fleet))
}

func parseFleet(t *testing.T, text string) form.Fleet {
	t.Helper()
	fleet, err := form.ParseFleet(text)
	if err != nil || fleet.String() != text {
		t.Fatal(fleet, err)
	}
	return fleet
}

func TestTextsAreThoseOfTheVectorsInBothDirections(t *testing.T) {
	for _, v := range vectors(t).Texts {
		if text, err := form.Encode(v.Form, number(t, v.ID)); text != v.Text || err != nil {
			t.Errorf("%s of %s is %q, not %q: %v", v.Form, v.ID, text, v.Text, err)
		}
		if id, err := form.Decode(v.Form, v.Text); id != number(t, v.ID) || err != nil {
			t.Errorf("%s %q is %d, not %s: %v", v.Form, v.Text, id, v.ID, err)
		}
	}
}

func TestTextsThatTheVectorsRefuseAreRefused(t *testing.T) {
	for _, v := range vectors(t).Refused {
		var id int64
		var err error
		if v.Form == "dated" {
			_, id, err = form.ReadDated(v.Text)
		} else {
			id, err = form.Decode(v.Form, v.Text)
		}
		if !errors.Is(err, leafd.ErrInvalid) || id != 0 {
			t.Errorf("%s %q is %d: %v", v.Form, v.Text, id, err)
		}
	}
}

func TestDaysAreThoseOfTheVectorsInBothDirections(t *testing.T) {
	for _, v := range vectors(t).Days {
		day, err := form.DayOf(time.UnixMilli(v.UnixMS), v.Zone)
		if err != nil || day.Tag("invoices") != v.Tag {
			t.Errorf("%d in %s is %v, not %s: %v", v.UnixMS, v.Zone, day, v.Tag, err)
		}
		if text, err := day.Text(number(t, v.ID)); text != v.Text || err != nil {
			t.Errorf("%s is %s: %v", v.Text, text, err)
		}
		if read, id, err := form.ReadDated(v.Text); read != day || id != number(t, v.ID) || err != nil {
			t.Errorf("%s is %d of %v: %v", v.Text, id, read, err)
		}
	}
}

func TestUUIDsAndObjectIDsAreThoseOfTheVectorsInBothDirections(t *testing.T) {
	for _, v := range vectors(t).Snowflakes {
		if layout, err := leafd.ParseLayout(v.Layout); layout.String() != v.Written || err != nil {
			t.Errorf("%s is %v, not %s: %v", v.Layout, layout, v.Written, err)
		}
		snowflakes := snowflakes(t, v.Layout, v.Fleet)
		for _, forms := range v.IDs {
			id := number(t, forms.ID)
			for name, want := range forms.byName() {
				text, err := snowflakes.Encode(name, id)
				if want == nil {
					if !errors.Is(err, leafd.ErrInvalid) || text != "" {
						t.Errorf("%s: %s of %d is %q", v.Layout, name, id, text)
					}
					continue
				}
				if text != *want || err != nil {
					t.Errorf("%s: %s of %d is %q, not %q: %v", v.Layout, name, id, text, *want, err)
				}
				if read, err := snowflakes.Decode(name, *want); read != id || err != nil {
					t.Errorf("%s: %s %s is %d, not %d: %v", v.Layout, name, *want, read, id, err)
				}
			}
		}
	}
}

func TestUUIDsAndObjectIDsThatNoSnowflakeBecomesAreRefused(t *testing.T) {
	for _, v := range vectors(t).RefusedSnowflakes {
		id, err := snowflakes(t, v.Layout, v.Fleet).Decode(v.Form, v.Text)
		if !errors.Is(err, leafd.ErrInvalid) || id != 0 {
			t.Errorf("%s %q is %d: %v", v.Form, v.Text, id, err)
		}
	}
}

func TestHashesAreThoseOfTheVectors(t *testing.T) {
	for _, v := range vectors(t).UUID5 {
		uuid, err := form.UUID5(parseFleet(t, v.Fleet), v.Tag, number(t, v.ID))
		if uuid.String() != v.Text || err != nil {
			t.Errorf("%s/%s/%s is %v, not %s: %v", v.Fleet, v.Tag, v.ID, uuid, v.Text, err)
		}
	}
}
