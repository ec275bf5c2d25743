package form

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// dayDigits is how many digits the number of a day has at least.
const dayDigits = 6

// Day is a date whose IDs have a tag of their own, for numbers that start over every day: the form dated of
// docs/forms.md. The zero value is 1970-01-01.
//
// Read the clock once, and take the tag and the text from the same Day. Then the date in the text is the one that the
// number belongs to, even at midnight.
type Day struct {
	// number counts from 1970-01-01.
	number int32
}

const secondsPerDay = 24 * 60 * 60

var lastDay = Day{int32(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC).Unix() / secondsPerDay)}

var zonePattern = regexp.MustCompile(`^([+-])([0-9]{2}):([0-5][0-9])$`)

// DayOf is the date at a time, in UTC or at a distance such as +08:00 or -03:30, at most 18 hours. There is no default
// zone; the location of the time does not matter. A time before 1970 or after 9999 has the first or the last day.
func DayOf(at time.Time, zone string) (Day, error) {
	ahead, err := parseZone(zone)
	if err != nil {
		return Day{}, err
	}
	seconds := at.Unix()
	switch {
	// Before the sum, which could overflow.
	case seconds < -ahead:
		return Day{}, nil
	case seconds/secondsPerDay > int64(lastDay.number):
		return lastDay, nil
	}
	number := (seconds + ahead) / secondsPerDay
	if number > int64(lastDay.number) {
		return lastDay, nil
	}
	return Day{int32(number)}, nil
}

// parseZone is how many seconds a zone is ahead of UTC.
func parseZone(zone string) (int64, error) {
	if zone == "UTC" {
		return 0, nil
	}
	parts := zonePattern.FindStringSubmatch(zone)
	if parts == nil {
		return 0, wrongZone(zone)
	}
	hours, _ := strconv.Atoi(parts[2])
	minutes, _ := strconv.Atoi(parts[3])
	minutes += hours * 60
	if minutes > 18*60 {
		return 0, wrongZone(zone)
	}
	if parts[1] == "-" {
		minutes = -minutes
	}
	return int64(minutes) * 60, nil
}

func wrongZone(zone string) error {
	return invalidf("time zone %s: write UTC, or hours and minutes from it, at most 18 hours, such as +08:00 or -03:30",
		quote(zone))
}

// NewDay is a date of the calendar, from 1970-01-01 to 9999-12-31: for example today's in a time zone with daylight
// saving time.
func NewDay(year int, month time.Month, day int) (Day, error) {
	at := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	// Date would take the 30th of February for the 1st or 2nd of March.
	isDate := at.Year() == year && at.Month() == month && at.Day() == day
	if !isDate || year < 1970 || year > 9999 {
		return Day{}, invalidf("%d-%d-%d is no date from 1970-01-01 to 9999-12-31", year, month, day)
	}
	return Day{int32(at.Unix() / secondsPerDay)}, nil
}

// Date is the date.
func (day Day) Date() (year int, month time.Month, dayOfMonth int) {
	return time.Unix(int64(day.number)*secondsPerDay, 0).UTC().Date()
}

// String is the date as in 20261122.
func (day Day) String() string {
	year, month, dayOfMonth := day.Date()
	return fmt.Sprintf("%04d%02d%02d", year, month, dayOfMonth)
}

// Tag is the tag of this day's IDs, as in invoices-20261122. Ask for an ID of it, and pass the ID to [Day.Text].
func (day Day) Tag(base string) string { return base + "-" + day.String() }

// Text is the text of an ID of this day's tag, as in 20261122-000017.
func (day Day) Text(id int64) (string, error) {
	if err := checkID(id); err != nil {
		return "", err
	}
	return day.String() + "-" + padded(id, dayDigits), nil
}

// ReadDated is the day and the ID of a text. It accepts only the text that [Day.Text] returns.
func ReadDated(text string) (Day, int64, error) {
	const digits = len("20261122")
	for at := range text {
		if at >= digits {
			break
		}
		if text[at] < '0' || text[at] > '9' {
			return Day{}, 0, wrongCharacter(text, at, "a date of 8 digits is expected first, as in 20261122-000017")
		}
	}
	if len(text) <= digits {
		return Day{}, 0, wrongf(text, "a date, a hyphen and a number are expected, as in 20261122-000017")
	}
	if !strings.HasPrefix(text[digits:], "-") {
		return Day{}, 0, wrongCharacter(text, digits, "a hyphen is expected")
	}
	// The digits cannot fail to be numbers.
	year, _ := strconv.Atoi(text[:4])
	month, _ := strconv.Atoi(text[4:6])
	dayOfMonth, _ := strconv.Atoi(text[6:digits])
	day, err := NewDay(year, time.Month(month), dayOfMonth)
	if err != nil {
		return Day{}, 0, wrongf(text, "%s is no date from 19700101 to 99991231", text[:digits])
	}
	id, err := readPadded(text, digits+1, dayDigits)
	if err != nil {
		return Day{}, 0, err
	}
	return day, id, nil
}
