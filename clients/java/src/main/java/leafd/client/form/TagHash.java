package leafd.client.form;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Objects;
import java.util.UUID;

/**
 * UUIDs of version 5: a <b>hash</b> of fleet ID, tag and ID, which nothing turns back. For IDs of a tag, which are
 * unique only within the tag; for snowflakes, {@link Snowflakes} makes UUIDs that can be read back.
 *
 * <p>Two IDs have equal hashes only by chance, among 10^12 of them in about 1 of 10^13 cases.
 */
public final class TagHash {
    /** The namespace of the names that are hashed: {@code FLEET/TAG/ID}. */
    public static final UUID NAMESPACE = UUID.fromString("6c656166-642d-575d-a31b-5e0c8f419726");

    private TagHash() {}

    /**
     * Returns the hash of an ID of a tag.
     *
     * @param fleet the installation
     * @param tag the tag
     * @param id the ID, from 0 to 2^63 - 1
     * @return the UUID of version 5
     * @throws IllegalArgumentException if the ID is negative, or the tag contains half of a surrogate pair
     */
    public static UUID uuid5(FleetId fleet, String tag, long id) {
        if (id < 0) {
            throw Wrong.number(id);
        }
        String name = Objects.requireNonNull(fleet) + "/" + Objects.requireNonNull(tag) + "/" + id;
        MessageDigest sha1;
        try {
            sha1 = MessageDigest.getInstance("SHA-1");
        } catch (NoSuchAlgorithmException missing) {
            throw new IllegalStateException("this Java has no SHA-1, which every Java has to have", missing);
        }
        sha1.update(ByteBuffer.allocate(16)
                .putLong(NAMESPACE.getMostSignificantBits())
                .putLong(NAMESPACE.getLeastSignificantBits())
                .flip());
        sha1.update(utf8(tag, name));
        ByteBuffer hash = ByteBuffer.wrap(sha1.digest());
        return Bits.uuid(5, hash.getLong(), hash.getLong());
    }

    /** String.getBytes would write a question mark for half of a surrogate pair, and so hash another tag. */
    private static ByteBuffer utf8(String tag, String name) {
        try {
            return StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(name));
        } catch (CharacterCodingException half) {
            throw new IllegalArgumentException(
                    "tag " + Wrong.quoted(tag) + ": it contains half of a surrogate pair; remove it", half);
        }
    }
}
