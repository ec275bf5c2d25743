<?php

declare(strict_types=1);

namespace Leafd\Status;

/** Whether snowflake IDs are issued, and if not, why. */
final class SnowflakeState
{
    /**
     * @param 'Serving'|'ClockBehind'|'Refused'|'Starting' $name
     * @param int|null    $behindMs of `ClockBehind`: how far the clock is behind the times already used
     * @param string|null $reason   of `Refused` and `Starting`
     */
    public function __construct(
        public readonly string $name,
        public readonly ?int $behindMs = null,
        public readonly ?string $reason = null,
    ) {
    }
}
