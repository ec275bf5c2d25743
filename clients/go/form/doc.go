// Package form turns IDs of leafd into other forms and back: short texts, numbers that start over every day, UUIDs and
// ObjectIDs. leafd's docs/forms.md defines them bit by bit. They are pure functions and need no daemon.
//
// Every ID has exactly one text in each form, and no other text is read. Errors are of the type [leafd.InvalidError];
// they name the text, its first wrong character and what can stand there.
//
// None of these forms hides the number: whoever sees two of them can count.
package form

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"leafd.invalid/leafd"
)

// shownChars is how much of a text an error shows. A text can be as long as an attacker likes.
const shownChars = 80

func invalidf(format string, args ...any) *leafd.InvalidError {
	return &leafd.InvalidError{Reason: fmt.Sprintf(format, args...)}
}

// wrongf is an error about a text.
func wrongf(text, format string, args ...any) *leafd.InvalidError {
	return invalidf("%s: %s", quote(text), fmt.Sprintf(format, args...))
}

// wrongCharacter is an error about the character at an index of a text in which only ASCII precedes it.
func wrongCharacter(text string, at int, hint string) *leafd.InvalidError {
	char, _ := utf8.DecodeRuneInString(text[at:])
	return wrongf(text, "character %d is %q: %s", at+1, char, hint)
}

func quote(text string) string {
	count := 0
	for at := range text {
		if count == shownChars {
			return strconv.Quote(text[:at]) + "…"
		}
		count++
	}
	return strconv.Quote(text)
}

func checkID(id int64) error {
	if id < 0 {
		return invalidf("%d is negative, so it is no ID: IDs are 0 to 2^63 - 1", id)
	}
	return nil
}
