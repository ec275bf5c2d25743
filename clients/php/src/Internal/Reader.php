<?php

declare(strict_types=1);

namespace Leafd\Internal;

use Leafd\Exception\ProtocolException;

/**
 * Reads the fields of one message. Every length is checked against the bytes left before anything is made
 * of it.
 *
 * @internal
 */
final class Reader
{
    private int $at = 0;

    public function __construct(private readonly string $bytes)
    {
    }

    public function u16(): int
    {
        return $this->number('v', 2);
    }

    public function u32(): int
    {
        return $this->number('V', 4);
    }

    /** The bits of a `u64`: numbers above 2^63 − 1 are negative. */
    public function u64(): int
    {
        return $this->number('P', 8);
    }

    public function i64(): int
    {
        return $this->number('P', 8);
    }

    public function str(): string
    {
        $text = $this->take($this->length(1));
        if (preg_match('//u', $text) !== 1) {
            throw new ProtocolException('it sent a text that is not valid UTF-8');
        }

        return $text;
    }

    /**
     * @template T
     *
     * @param callable(): T $value
     *
     * @return T|null
     */
    public function opt(callable $value): mixed
    {
        $flag = \ord($this->take(1));
        if ($flag > 1) {
            throw new ProtocolException("it sent an option that begins with $flag");
        }

        return $flag === 1 ? $value() : null;
    }

    /** The length of a text or list whose elements have at least `$size` bytes each. */
    public function length(int $size): int
    {
        $length = $this->u64();
        if ($length < 0 || $length > intdiv($this->left(), $size)) {
            throw new ProtocolException(sprintf('it sent a length of %u with %d bytes left', $length, $this->left()));
        }

        return $length;
    }

    public function end(): void
    {
        if ($this->left() > 0) {
            throw new ProtocolException(sprintf('it sent a message with %d bytes too many', $this->left()));
        }
    }

    private function left(): int
    {
        return \strlen($this->bytes) - $this->at;
    }

    private function take(int $length): string
    {
        if ($length > $this->left()) {
            throw new ProtocolException('it sent a message that ends within a field');
        }
        $this->at += $length;

        return substr($this->bytes, $this->at - $length, $length);
    }

    private function number(string $format, int $length): int
    {
        if ($length > $this->left()) {
            throw new ProtocolException('it sent a message that ends within a field');
        }
        /** @var array{1: int} $number */
        $number = unpack($format, $this->bytes, $this->at);
        $this->at += $length;

        return $number[1];
    }
}
