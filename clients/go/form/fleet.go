package form

import (
	"crypto/sha1"
	"fmt"
)

// fleetBits is how many bits a fleet ID has.
const fleetBits = 40

// Fleet is the fleet ID: 40 random bits, chosen once for an installation and the same on all its hosts, so that two
// installations cannot make equal UUIDs. `openssl rand -hex 5` makes one.
type Fleet struct{ bits uint64 }

// ParseFleet reads a fleet ID: 10 lowercase hexadecimal digits.
func ParseFleet(text string) (Fleet, error) {
	const remedy = "a fleet ID is 10 lowercase hexadecimal digits, such as 4be1f0a37c"
	var fleet Fleet
	for at := range text {
		value, hint := hexDigit(text[at])
		if hint != "" {
			return Fleet{}, wrongCharacter(text, at, hint+"; "+remedy)
		}
		fleet.bits = fleet.bits<<4 | uint64(value)
	}
	if len(text) != fleetBits/4 {
		return Fleet{}, invalidf("fleet ID %s has %d characters; %s", quote(text), len(text), remedy)
	}
	return fleet, nil
}

// String is the 10 digits.
func (fleet Fleet) String() string { return fmt.Sprintf("%010x", fleet.bits) }

// Namespace is the namespace of the UUIDs that [UUID5] makes: 6c656166-642d-575d-a31b-5e0c8f419726.
var Namespace = UUID{0x6c, 0x65, 0x61, 0x66, 0x64, 0x2d, 0x57, 0x5d, 0xa3, 0x1b, 0x5e, 0x0c, 0x8f, 0x41, 0x97, 0x26}

// UUID5 is a UUID of version 5 for an ID of a tag. It is a hash: nothing turns it back into the ID. IDs of a tag are
// unique only within the tag, and no other UUID has room for its name.
func UUID5(fleet Fleet, tag string, id int64) (UUID, error) {
	if err := checkID(id); err != nil {
		return UUID{}, err
	}
	hash := sha1.New()
	hash.Write(Namespace[:])
	fmt.Fprintf(hash, "%s/%s/%d", fleet, tag, id)
	var uuid UUID
	copy(uuid[:], hash.Sum(nil))
	uuid[6] = uuid[6]&0x0f | 5<<4
	uuid[8] = uuid[8]&0x3f | variant<<6
	return uuid, nil
}
