package form

import "leafd.invalid/leafd"

const (
	// lowBits is how many bits below the milliseconds UUIDs of version 7 and ObjectIDs have room for.
	lowBits = 34
	// upperFleetBits is how many bits of the fleet ID, its upper ones, an ObjectID has.
	upperFleetBits = 20
	// nodeWorkerBits is how many bits of the worker ID a UUID of version 1 has outside of its time.
	nodeWorkerBits = 21
	// gregorian is 1970-01-01 in units of 100 ns since 1582-10-15.
	gregorian = 122_192_928_000_000_000
	// ticksPerMS is how many units of 100 ns a millisecond has.
	ticksPerMS = 10_000
	// ticksBits is how many bits of time a UUID of version 1 has.
	ticksBits = 60
)

// Snowflakes turns the snowflake IDs of one installation into UUIDs and ObjectIDs, and back.
type Snowflakes struct {
	layout leafd.Layout
	fleet  Fleet
}

// NewSnowflakes takes the layout, which the daemon's status names, and the fleet ID.
func NewSnowflakes(layout leafd.Layout, fleet Fleet) Snowflakes {
	return Snowflakes{layout: layout, fleet: fleet}
}

// Encode is the text of a snowflake ID as uuid7, uuid8, uuid1 or objectid.
func (s Snowflakes) Encode(form string, id int64) (string, error) {
	var uuid UUID
	var err error
	switch form {
	case "uuid7":
		uuid, err = s.UUID7(id)
	case "uuid8":
		uuid, err = s.UUID8(id)
	case "uuid1":
		uuid, err = s.UUID1(id)
	case "objectid":
		objectID, err := s.ObjectID(id)
		if err != nil {
			return "", err
		}
		return objectID.String(), nil
	default:
		return "", unknownForm(form)
	}
	if err != nil {
		return "", err
	}
	return uuid.String(), nil
}

// Decode is the snowflake ID of such a text. It accepts only the text that [Snowflakes.Encode] returns.
func (s Snowflakes) Decode(form, text string) (int64, error) {
	version := 0
	switch form {
	case "uuid7":
		version = 7
	case "uuid8":
		version = 8
	case "uuid1":
		version = 1
	case "objectid":
		id, err := ParseObjectID(text)
		if err != nil {
			return 0, err
		}
		return s.IDOfObjectID(id)
	default:
		return 0, unknownForm(form)
	}
	uuid, err := ParseUUID(text)
	if err != nil {
		return 0, err
	}
	if uuid.Version() != version {
		return 0, wrongf(text, "it is a UUID of version %d, not %d", uuid.Version(), version)
	}
	return s.IDOf(uuid)
}

func unknownForm(form string) error {
	if form == "uuid5" {
		return invalidf("uuid5 is no form of a snowflake, but a hash of an ID of a tag: use UUID5")
	}
	return invalidf("there is no form %s of a snowflake; there are uuid7, uuid8, uuid1 and objectid", quote(form))
}

// UUID7 is the UUID of version 7. These sort as the snowflakes do.
func (s Snowflakes) UUID7(id int64) (UUID, error) {
	ms, low, err := s.split(id)
	if err != nil {
		return UUID{}, err
	}
	const lower = lowBits - 12
	return newUUID(7, ms, low>>lower, low&(1<<lower-1)<<fleetBits|s.fleet.bits), nil
}

// UUID8 is the UUID of version 8: the number itself, which needs no layout. These sort as the numbers do.
func (s Snowflakes) UUID8(id int64) (UUID, error) {
	if err := checkID(id); err != nil {
		return UUID{}, err
	}
	value := uint64(id)
	return newUUID(8, value>>15, value>>3&0xfff, value&7<<59|s.fleet.bits<<19), nil
}

// UUID1 is the UUID of version 1: the time in units of 100 ns, clock sequence and node. These do not sort as the
// snowflakes do.
func (s Snowflakes) UUID1(id int64) (UUID, error) {
	parts, err := s.layout.Decode(id)
	if err != nil {
		return UUID{}, err
	}
	if err := s.checkRoomOf1(); err != nil {
		return UUID{}, err
	}
	noRoom := invalidf("a UUID of version 1 has no room for the time of %d, which has more than 60 bits of 100 ns", id)
	// Before the product, which could overflow.
	if parts.UnixMS > 1<<ticksBits/ticksPerMS {
		return UUID{}, noRoom
	}
	excess := parts.Worker >> nodeWorkerBits << s.layout.SequenceBits()
	ticks := parts.UnixMS*ticksPerMS + gregorian + excess + parts.Sequence
	if ticks>>ticksBits != 0 {
		return UUID{}, noRoom
	}
	clock, node := parts.Worker&(1<<nodeWorkerBits-1)>>7, parts.Worker&0x7f<<41|1<<fleetBits|s.fleet.bits
	return newUUID(1, ticks&0xffff_ffff<<16|ticks>>32&0xffff, ticks>>48, clock<<48|node), nil
}

// checkRoomOf1 finds out whether each time unit has enough steps of 100 ns for its sequence numbers.
func (s Snowflakes) checkRoomOf1() error {
	stepBits := s.layout.SequenceBits()
	if s.layout.WorkerBits() > nodeWorkerBits {
		stepBits += s.layout.WorkerBits() - nodeWorkerBits
	}
	if 1<<stepBits > s.layout.UnitMS()*ticksPerMS {
		return invalidf("a UUID of version 1 has no room for the layout %v: its time unit has too few steps of 100 ns",
			s.layout)
	}
	return nil
}

// ObjectID is the ObjectID. These sort as the snowflakes do, until 2106.
func (s Snowflakes) ObjectID(id int64) (ObjectID, error) {
	ms, low, err := s.split(id)
	if err != nil {
		return ObjectID{}, err
	}
	seconds := ms / 1000
	if seconds>>32 != 0 {
		return ObjectID{}, invalidf("an ObjectID has no room for the time of %d, which is after 2106", id)
	}
	return newObjectID(seconds, ms%1000<<(lowBits+upperFleetBits)|low<<upperFleetBits|s.upperFleet()), nil
}

func (s Snowflakes) upperFleet() uint64 { return s.fleet.bits >> (fleetBits - upperFleetBits) }

// IDOf is the snowflake ID that became this UUID of version 1, 7 or 8 in this installation.
func (s Snowflakes) IDOf(uuid UUID) (int64, error) {
	text := uuid.String()
	version := uuid.Version()
	if version == 5 {
		return 0, wrongf(text, "a UUID of version 5 is a hash: nothing turns it back into an ID")
	}
	if version != 1 && version != 7 && version != 8 {
		return 0, wrongf(text, "it is a UUID of version %d, not 1, 7 or 8", version)
	}
	if !uuid.hasVariant() {
		return 0, wrongCharacter(text, 19, "the variant of RFC 9562 has 8, 9, a or b here")
	}
	a, b, c := uuid.fields()
	fleet := Fleet{c & (1<<fleetBits - 1)}
	if version == 8 {
		fleet.bits = c >> 19 & (1<<fleetBits - 1)
	}
	if fleet != s.fleet {
		return 0, wrongf(text, "it has the fleet ID %s, and this is %s: another installation made it", fleet, s.fleet)
	}
	switch version {
	case 1:
		return s.idOf1(text, b<<48|a&0xffff<<32|a>>16, c)
	case 7:
		return s.join(text, a, b<<(lowBits-12)|c>>fleetBits)
	}
	if c&(1<<19-1) != 0 {
		return 0, foreign(text, "its last 19 bits are not zero")
	}
	return int64(a<<15 | b<<3 | c>>59), nil
}

func (s Snowflakes) idOf1(text string, ticks, rest uint64) (int64, error) {
	if err := s.checkRoomOf1(); err != nil {
		return 0, err
	}
	if rest>>fleetBits&1 == 0 {
		return 0, foreign(text, "its node may be a network card")
	}
	epoch := s.layout.EpochMS()
	// Before the product, which could overflow.
	if epoch > 1<<ticksBits/ticksPerMS || ticks < gregorian+epoch*ticksPerMS {
		return 0, foreign(text, "its time is before the epoch")
	}
	since, perUnit := ticks-gregorian-epoch*ticksPerMS, s.layout.UnitMS()*ticksPerMS
	units, step := since/perUnit, since%perUnit
	sequence := step & (1<<s.layout.SequenceBits() - 1)
	excess := step >> s.layout.SequenceBits()
	id, err := s.layout.Compose(units, excess<<nodeWorkerBits|rest>>48<<7|rest>>41&0x7f, sequence)
	if err != nil {
		return 0, foreign(text, err.(*leafd.InvalidError).Reason)
	}
	return id, nil
}

// IDOfObjectID is the snowflake ID that became this ObjectID in this installation.
func (s Snowflakes) IDOfObjectID(id ObjectID) (int64, error) {
	text := id.String()
	seconds, rest := id.fields()
	if rest&(1<<upperFleetBits-1) != s.upperFleet() {
		return 0, wrongf(text, "it has another fleet ID than %s: another installation made it", s.fleet)
	}
	ms := rest >> (lowBits + upperFleetBits)
	if ms > 999 {
		return 0, foreign(text, "it has more than 999 milliseconds")
	}
	return s.join(text, seconds*1000+ms, rest>>upperFleetBits&(1<<lowBits-1))
}

// excessBits is how many bits below the time have no room in lowBits. They are added to the milliseconds, of which a
// time unit has enough that mean nothing.
func (s Snowflakes) excessBits() (uint, error) {
	bits := s.layout.WorkerBits() + s.layout.SequenceBits()
	if bits <= lowBits {
		return 0, nil
	}
	if 1<<(bits-lowBits) > s.layout.UnitMS() {
		return 0, invalidf("UUIDs of version 7 and ObjectIDs have no room for the layout %v: worker and sequence have too "+
			"many bits", s.layout)
	}
	return bits - lowBits, nil
}

// split is the time in milliseconds, at most 48 bits, and the lowBits below it.
func (s Snowflakes) split(id int64) (ms, low uint64, err error) {
	if _, err := s.excessBits(); err != nil {
		return 0, 0, err
	}
	parts, err := s.layout.Decode(id)
	if err != nil {
		return 0, 0, err
	}
	low = uint64(id) & (1<<(s.layout.WorkerBits()+s.layout.SequenceBits()) - 1)
	ms = parts.UnixMS + low>>lowBits
	// Both, since the sum could overflow.
	if parts.UnixMS>>48 != 0 || ms>>48 != 0 {
		return 0, 0, invalidf("UUIDs of version 7 and ObjectIDs have no room for the time of %d, which has more than 48 "+
			"bits of milliseconds", id)
	}
	return ms, low & (1<<lowBits - 1), nil
}

// join is the inverse of split.
func (s Snowflakes) join(text string, ms, low uint64) (int64, error) {
	excessBits, err := s.excessBits()
	if err != nil {
		return 0, err
	}
	if ms < s.layout.EpochMS() {
		return 0, foreign(text, "its time is before the epoch")
	}
	since := ms - s.layout.EpochMS()
	units, excess := since/s.layout.UnitMS(), since%s.layout.UnitMS()
	if units>>s.layout.TimeBits() != 0 {
		return 0, foreign(text, "its time is past the end of the layout")
	}
	if excess>>excessBits != 0 {
		return 0, foreign(text, "its time lies within a time unit")
	}
	low |= excess << lowBits
	layoutBits := s.layout.WorkerBits() + s.layout.SequenceBits()
	if low>>layoutBits != 0 {
		return 0, foreign(text, "it has more bits for worker and sequence")
	}
	return int64(units<<layoutBits | low), nil
}

func foreign(text, why string) error {
	return wrongf(text, "no snowflake ID of this layout becomes it: %s", why)
}
