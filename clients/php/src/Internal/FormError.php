<?php

declare(strict_types=1);

namespace Leafd\Internal;

use Leafd\Exception\InvalidArgumentException;

/**
 * What is wrong with an argument of the forms: the value, its first wrong character, and the remedy.
 *
 * @internal
 */
final class FormError
{
    /** How many characters of a text an error shows. A text can be as long as an attacker likes. */
    private const SHOWN_CHARACTERS = 80;

    public static function of(string $text, string $why): InvalidArgumentException
    {
        return new InvalidArgumentException(self::quote($text) . ": $why");
    }

    /** @param int $at the index of a character before which only ASCII stands */
    public static function character(string $text, int $at, string $hint): InvalidArgumentException
    {
        $byte = \ord($text[$at]);
        $length = match (true) {
            $byte < 0xC0 => 1,
            $byte < 0xE0 => 2,
            $byte < 0xF0 => 3,
            default => 4,
        };

        $found = self::quote(substr($text, $at, $length));

        return self::of($text, 'character ' . ($at + 1) . " is $found: $hint");
    }

    public static function tooHigh(string $text): InvalidArgumentException
    {
        return self::of($text, 'the number is above 2^63 - 1, so it is no ID');
    }

    public static function quote(string $text): string
    {
        $count = self::SHOWN_CHARACTERS;
        $isLong = preg_match("/\\A.{{$count}}(?=.)/su", $text, $beginning) === 1;
        if (preg_last_error() !== \PREG_NO_ERROR) {
            // No UTF-8: bytes will do.
            $isLong = \strlen($text) > $count;
            $beginning = [substr($text, 0, $count)];
        }
        $flags = \JSON_UNESCAPED_UNICODE | \JSON_UNESCAPED_SLASHES | \JSON_INVALID_UTF8_SUBSTITUTE;

        return json_encode($isLong ? $beginning[0] : $text, $flags | \JSON_THROW_ON_ERROR) . ($isLong ? '…' : '');
    }

    /** @throws InvalidArgumentException if it is negative */
    public static function checkId(int $id): void
    {
        if ($id < 0) {
            throw new InvalidArgumentException("$id is negative, so it is no ID: IDs are 0 to 2^63 - 1");
        }
    }
}
