<?php

declare(strict_types=1);

namespace Leafd\Internal;

use Leafd\Exception\InvalidArgumentException;

/**
 * Numbers in an alphabet at a fixed width. The alphabet is in the order of ASCII, so that texts sort as the numbers do.
 *
 * @internal
 */
final class Numeral
{
    private const DIGITS = '0123456789';
    private const UPPER = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';
    private const LOWER = 'abcdefghijklmnopqrstuvwxyz';
    private const CROCKFORD = self::DIGITS . 'ABCDEFGHJKMNPQRSTVWXYZ';

    /**
     * @param string                $checks the symbols of the number modulo their count, or nothing
     * @param array<string, string> $hints  what to write instead of a character that matches a pattern; the last one
     *                                      matches all
     */
    private function __construct(
        private readonly string $symbols,
        private readonly int $width,
        private readonly string $checks,
        private readonly array $hints,
    ) {
    }

    /** The numeral of a form's name. */
    public static function named(string $name): ?self
    {
        return match ($name) {
            'base62' => new self(self::DIGITS . self::UPPER . self::LOWER, 11, '', [
                '//' => 'a letter of a to z or A to Z or a digit is expected',
            ]),
            'base36' => new self(self::DIGITS . self::LOWER, 13, '', [
                '/[A-Z]/' => 'write lowercase letters',
                '//' => 'a letter of a to z or a digit is expected',
            ]),
            'crockford32' => new self(self::CROCKFORD, 13, self::CROCKFORD . '*~$=U', [
                '/[IL]/i' => 'write the digit 1',
                '/O/i' => 'write the digit 0',
                '/[a-z]/' => 'write capital letters',
                '//' => 'a digit or a capital letter other than I, L, O and U is expected',
            ]),
            default => null,
        };
    }

    public function encode(int $id): string
    {
        $base = \strlen($this->symbols);
        $text = '';
        for ($left = $id; \strlen($text) < $this->width; $left = intdiv($left, $base)) {
            $text = $this->symbols[$left % $base] . $text;
        }

        return $text . $this->check($id);
    }

    /**
     * @param int $prefix how many characters precede the number
     *
     * @throws InvalidArgumentException
     */
    public function decode(string $text, int $prefix): int
    {
        $digits = $this->checks === '' ? substr($text, $prefix) : substr($text, $prefix, $this->width);
        $right = strspn($digits, $this->symbols);
        if ($right < \strlen($digits)) {
            throw FormError::character($text, $prefix + $right, $this->hint($digits[$right]));
        }
        $check = substr($text, $prefix + \strlen($digits));
        if ($check !== '' && !str_contains($this->checks, $check[0])) {
            $symbol = 'a digit, a capital letter other than I, L and O, or one of * ~ $ =';
            throw FormError::character($text, $prefix + $this->width, "a check symbol is expected: $symbol");
        }
        $length = $prefix + $this->width + ($this->checks === '' ? 0 : 1);
        if (\strlen($text) !== $length) {
            // All bytes but those in the middle of a character.
            $got = \strlen($text) - (int) preg_match_all('/[\x80-\xBF]/', $text);
            throw FormError::of($text, "$got characters instead of $length");
        }
        $id = $this->number($digits, $text);
        $expected = $this->check($id);
        if ($check !== $expected) {
            throw FormError::of(
                $text,
                "the check symbol is \"$check\", but \"$expected\" belongs to this number: something is mistyped",
            );
        }

        return $id;
    }

    private function number(string $digits, string $text): int
    {
        $base = \strlen($this->symbols);
        $id = 0;
        foreach (str_split($digits) as $symbol) {
            $value = (int) strpos($this->symbols, $symbol);
            // Before the product, which would become a float.
            if ($id > intdiv(\PHP_INT_MAX - $value, $base)) {
                throw FormError::tooHigh($text);
            }
            $id = $id * $base + $value;
        }

        return $id;
    }

    private function check(int $id): string
    {
        return $this->checks === '' ? '' : $this->checks[$id % \strlen($this->checks)];
    }

    private function hint(string $found): string
    {
        foreach ($this->hints as $pattern => $hint) {
            if (preg_match($pattern, $found) === 1) {
                return $hint;
            }
        }

        return '';
    }
}
