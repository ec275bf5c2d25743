<?php

declare(strict_types=1);

namespace Leafd\Exception;

use Leafd\ErrorCode;

/** The daemon answered with an error. */
final class RefusedException extends \RuntimeException implements LeafdException
{
    /** The name of the number, as the documentation of leafd gives it; `Unknown` if the daemon is newer than this client. */
    public readonly string $name;

    /**
     * @param int    $number       1xx: the bytes break the protocol. 2xx: the call asks for something impossible
     *                             or forbidden. 3xx: the same call may succeed later.
     * @param int    $retryAfterMs how long to wait before the next try, in milliseconds; 0 if unknown
     * @param int    $detail       a number that belongs to the error, such as a limit; 0 if none does. It is an
     *                             unsigned 64-bit number: above 2^63 − 1, `sprintf('%u', $detail)` shows it
     * @param string $text         the daemon's message, for people; its wording may change
     */
    public function __construct(
        public readonly int $number,
        public readonly int $retryAfterMs = 0,
        public readonly int $detail = 0,
        public readonly string $text = '',
    ) {
        $this->name = ErrorCode::tryFrom($number)?->name ?? 'Unknown';
        parent::__construct("leafd refused: $number $this->name: $text", $number);
    }

    /** The number as a case; `null` if this client does not know it. */
    public function errorCode(): ?ErrorCode
    {
        return ErrorCode::tryFrom($this->number);
    }

    public function isTemporary(): bool
    {
        // An operator has to act on these two.
        $stays = [ErrorCode::TimeExhausted->value, ErrorCode::BadRow->value];

        return intdiv($this->number, 100) === 3 && !\in_array($this->number, $stays, true);
    }
}
