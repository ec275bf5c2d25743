<?php

declare(strict_types=1);

namespace Leafd\Form;

use Leafd\Exception\InvalidArgumentException;
use Leafd\Internal\FormError;
use Leafd\Internal\Hex;

/**
 * UUIDs of version 5 for IDs of a tag. They are hashes: nothing turns them back into the ID. IDs of a tag are unique
 * only within the tag, and no other UUID has room for its name.
 */
final class Uuid5
{
    /** The namespace of the names that are hashed. */
    public const NAMESPACE = '6c656166-642d-575d-a31b-5e0c8f419726';

    /**
     * The hash of fleet ID, tag and ID.
     *
     * @param string $fleet the fleet ID: 10 lowercase hexadecimal digits
     *
     * @throws InvalidArgumentException if the fleet ID is none, or the ID is negative
     */
    public static function hash(string $fleet, string $tag, int $id): string
    {
        Hex::fleet($fleet);
        FormError::checkId($id);
        $hash = sha1(hex2bin(str_replace('-', '', self::NAMESPACE)) . "$fleet/$tag/$id");
        $part = static fn (int $from, int $length): int => (int) hexdec(substr($hash, $from, $length));

        // The 4 bits of the version and the 2 of the variant replace those of the hash.
        return Hex::uuid(5, $part(0, 12), $part(13, 3), ($part(16, 4) & 0x3FFF) << 48 | $part(20, 12));
    }
}
