package form

import (
	"encoding/binary"
	"encoding/hex"
)

// variant is the two bits that UUIDs by RFC 9562 have in common.
const variant = 0b10

// UUID is a UUID in network order. It converts to the types of the common packages for UUIDs, which are [16]byte.
type UUID [16]byte

// ParseUUID reads a UUID: 36 characters with hyphens and lowercase digits.
func ParseUUID(text string) (UUID, error) {
	const length = 36
	var digits [2 * len(UUID{})]byte
	count := 0
	for at := range text {
		hint := ""
		switch {
		case at == length:
			hint = "the UUID ends before it"
		case at == 8 || at == 13 || at == 18 || at == 23:
			if text[at] != '-' {
				hint = "a hyphen is expected"
			}
		default:
			if _, hint = hexDigit(text[at]); hint == "" {
				digits[count] = text[at]
				count++
			}
		}
		if hint != "" {
			return UUID{}, wrongCharacter(text, at, hint)
		}
	}
	if len(text) < length {
		return UUID{}, wrongf(text, "%d characters instead of the %d of a UUID", len(text), length)
	}
	var uuid UUID
	_, err := hex.Decode(uuid[:], digits[:])
	return uuid, err
}

// String is the 36 characters.
func (uuid UUID) String() string {
	text := make([]byte, 0, 36)
	for at := range uuid {
		if at == 4 || at == 6 || at == 8 || at == 10 {
			text = append(text, '-')
		}
		text = append(text, hexDigits[uuid[at]>>4], hexDigits[uuid[at]&15])
	}
	return string(text)
}

// Version is the version, such as 7.
func (uuid UUID) Version() int { return int(uuid[6] >> 4) }

// newUUID puts version and variant between 48, 12 and 62 bits.
func newUUID(version, a, b, c uint64) UUID {
	var uuid UUID
	binary.BigEndian.PutUint64(uuid[:8], a<<16|version<<12|b)
	binary.BigEndian.PutUint64(uuid[8:], variant<<62|c)
	return uuid
}

// fields are the 48, 12 and 62 bits around version and variant.
func (uuid UUID) fields() (a, b, c uint64) {
	upper, lower := binary.BigEndian.Uint64(uuid[:8]), binary.BigEndian.Uint64(uuid[8:])
	return upper >> 16, upper & 0xfff, lower & (1<<62 - 1)
}

func (uuid UUID) hasVariant() bool { return uuid[8]>>6 == variant }

// ObjectID is an ObjectID of MongoDB. It converts to the type of MongoDB's driver, which is [12]byte.
type ObjectID [12]byte

// ParseObjectID reads an ObjectID: 24 lowercase hexadecimal digits.
func ParseObjectID(text string) (ObjectID, error) {
	const length = 2 * len(ObjectID{})
	for at := range text {
		hint := "the ObjectID ends before it"
		if at < length {
			_, hint = hexDigit(text[at])
		}
		if hint != "" {
			return ObjectID{}, wrongCharacter(text, at, hint)
		}
	}
	if len(text) < length {
		return ObjectID{}, wrongf(text, "%d characters instead of the %d of an ObjectID", len(text), length)
	}
	var id ObjectID
	_, err := hex.Decode(id[:], []byte(text))
	return id, err
}

// String is the 24 digits.
func (id ObjectID) String() string { return hex.EncodeToString(id[:]) }

// newObjectID puts 32 bits before 64.
func newObjectID(seconds, rest uint64) ObjectID {
	var id ObjectID
	binary.BigEndian.PutUint32(id[:4], uint32(seconds))
	binary.BigEndian.PutUint64(id[4:], rest)
	return id
}

// fields are the inverse of newObjectID.
func (id ObjectID) fields() (seconds, rest uint64) {
	return uint64(binary.BigEndian.Uint32(id[:4])), binary.BigEndian.Uint64(id[4:])
}

const hexDigits = "0123456789abcdef"

// hexDigit is the value of a lowercase digit, or what to write instead.
func hexDigit(char byte) (value byte, hint string) {
	switch {
	case char >= '0' && char <= '9':
		return char - '0', ""
	case char >= 'a' && char <= 'f':
		return char - 'a' + 10, ""
	case char >= 'A' && char <= 'F':
		return 0, "write lowercase letters"
	}
	return 0, "a hexadecimal digit is expected"
}
