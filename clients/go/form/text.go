package form

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDigits is how many decimal digits the highest ID has.
const maxDigits = 19

// textForm is a form of the number alone.
type textForm struct {
	// prefix has its underscore, or is empty.
	prefix string
	// numeral is nil for decimal digits, of which there are at least width.
	numeral *numeral
	width   int
}

// Encode is the text of an ID in a form of the number alone: decimal, base62, base36, crockford32, padded or padded1 to
// padded19, each with an optional prefix, as in ord_base62.
func Encode(form string, id int64) (string, error) {
	parsed, err := parseForm(form)
	if err != nil {
		return "", err
	}
	if err := checkID(id); err != nil {
		return "", err
	}
	if parsed.numeral == nil {
		return parsed.prefix + padded(id, parsed.width), nil
	}
	return parsed.prefix + parsed.numeral.encode(uint64(id)), nil
}

// Decode is the ID of a text in a form of the number alone. It accepts only the text that [Encode] returns.
func Decode(form, text string) (int64, error) {
	parsed, err := parseForm(form)
	if err != nil {
		return 0, err
	}
	for at := range parsed.prefix {
		if at == len(text) {
			return 0, wrongf(text, "it ends within the prefix %q", parsed.prefix)
		}
		if text[at] != parsed.prefix[at] {
			return 0, wrongCharacter(text, at, fmt.Sprintf("the prefix %q is expected", parsed.prefix))
		}
	}
	if parsed.numeral == nil {
		return readPadded(text, len(parsed.prefix), parsed.width)
	}
	return parsed.numeral.decode(text, len(parsed.prefix))
}

func parseForm(form string) (textForm, error) {
	name := form[strings.LastIndexByte(form, '_')+1:]
	parsed := textForm{prefix: form[:len(form)-len(name)]}
	switch {
	case name == "decimal":
		parsed.width = 1
	case name == "padded":
		parsed.width = maxDigits
	case strings.HasPrefix(name, "padded"):
		digits := name[len("padded"):]
		width, err := strconv.ParseUint(digits, 10, 8)
		if err != nil || digits[0] == '0' || width > maxDigits {
			return textForm{}, invalidf("form %s: a number can be padded to 1 to %d digits, as in padded12", quote(form),
				maxDigits)
		}
		parsed.width = int(width)
	default:
		if parsed.numeral = numerals[name]; parsed.numeral == nil {
			return textForm{}, invalidf("there is no text form %s; there are decimal, base62, base36, crockford32 and "+
				"padded[N], each with an optional prefix as in ord_base62. For UUIDs and ObjectIDs, use Snowflakes; for "+
				"numbers of a day, Day", quote(form))
		}
	}
	return parsed, checkPrefix(parsed.prefix)
}

// checkPrefix has TypeID's rule. It takes the prefix with its underscore, or nothing.
func checkPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	bare := prefix[:len(prefix)-1]
	isRight := len(bare) >= 1 && len(bare) <= 63 && bare[0] != '_' && bare[len(bare)-1] != '_'
	for at := 0; at < len(bare); at++ {
		isRight = isRight && (bare[at] == '_' || bare[at] >= 'a' && bare[at] <= 'z')
	}
	if !isRight {
		return invalidf("prefix %s: a prefix is 1 to 63 lowercase letters and underscores, and begins and ends with a "+
			"letter", quote(bare))
	}
	return nil
}

func padded(id int64, width int) string { return fmt.Sprintf("%0*d", width, id) }

// readPadded reads the decimal digits behind a prefix. There are more than width only if the number needs them.
func readPadded(text string, prefix, width int) (int64, error) {
	digits := text[prefix:]
	for at := range digits {
		if digits[at] < '0' || digits[at] > '9' {
			return 0, wrongCharacter(text, prefix+at, "a decimal digit is expected")
		}
	}
	if len(digits) < width {
		return 0, wrongf(text, "%d digits instead of at least %d", len(digits), width)
	}
	if len(digits) > width && digits[0] == '0' {
		return 0, wrongCharacter(text, prefix, "it is one zero too many")
	}
	id, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, tooHigh(text)
	}
	return id, nil
}

// numeral writes numbers in an alphabet at a fixed width, so that texts sort as the numbers do.
type numeral struct {
	// symbols are in the order of ASCII.
	symbols string
	width   int
	// checks are the symbols of the number modulo their count, or empty.
	checks string
	// hint says what to write instead of a character that is no symbol.
	hint func(found byte) string
}

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

var numerals = map[string]*numeral{
	"base62": {
		symbols: "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
		width:   11,
		hint:    func(byte) string { return "a letter of a to z or A to Z or a digit is expected" },
	},
	"base36": {
		symbols: "0123456789abcdefghijklmnopqrstuvwxyz",
		width:   13,
		hint: func(found byte) string {
			if found >= 'A' && found <= 'Z' {
				return "write lowercase letters"
			}
			return "a letter of a to z or a digit is expected"
		},
	},
	"crockford32": {symbols: crockford, width: 13, checks: crockford + "*~$=U", hint: crockfordHint},
}

func crockfordHint(found byte) string {
	switch {
	case strings.IndexByte("ILil", found) >= 0:
		return "write the digit 1"
	case found == 'O' || found == 'o':
		return "write the digit 0"
	case found >= 'a' && found <= 'z':
		return "write capital letters"
	}
	return "a digit or a capital letter other than I, L, O and U is expected"
}

func (n *numeral) encode(id uint64) string {
	text, base := make([]byte, n.width, n.width+1), uint64(len(n.symbols))
	for at, left := n.width-1, id; at >= 0; at-- {
		text[at] = n.symbols[left%base]
		left /= base
	}
	if n.checks != "" {
		text = append(text, n.check(id))
	}
	return string(text)
}

func (n *numeral) check(id uint64) byte { return n.checks[id%uint64(len(n.checks))] }

func (n *numeral) decode(text string, prefix int) (int64, error) {
	symbols, check := text[prefix:], ""
	length := n.width
	if n.checks != "" {
		length++
		if len(symbols) > n.width {
			symbols, check = symbols[:n.width], symbols[n.width:]
		}
	}
	base, id, isTooHigh := uint64(len(n.symbols)), uint64(0), false
	for at := range symbols {
		value := strings.IndexByte(n.symbols, symbols[at])
		if value < 0 {
			return 0, wrongCharacter(text, prefix+at, n.hint(symbols[at]))
		}
		isTooHigh = isTooHigh || id > (math.MaxInt64-uint64(value))/base
		id = id*base + uint64(value)
	}
	if check != "" && strings.IndexByte(n.checks, check[0]) < 0 {
		return 0, wrongCharacter(text, prefix+n.width,
			"a check symbol is expected: a digit, a capital letter other than I, L and O, or one of * ~ $ =")
	}
	if got := len(symbols) + utf8.RuneCountInString(check); got != length {
		return 0, wrongf(text, "%d characters instead of %d", prefix+got, prefix+length)
	}
	if isTooHigh {
		return 0, tooHigh(text)
	}
	if check != "" && check[0] != n.check(id) {
		return 0, wrongf(text, "the check symbol is %q, but %q belongs to this number: something is mistyped", check[0],
			n.check(id))
	}
	return int64(id), nil
}

func tooHigh(text string) error {
	return wrongf(text, "the number is above 2^63 - 1, so it is no ID")
}
