<?php

declare(strict_types=1);

namespace Leafd;

/** The parts of a snowflake ID. */
final class DecodedId
{
    /**
     * @param int      $unixMs     the start of the ID's time unit, in milliseconds since 1970-01-01T00:00:00Z
     * @param int      $worker     the worker ID, data centre bits included
     * @param int|null $datacenter the data centre, if the layout has one
     * @param int      $sequence   the sequence number within the time unit
     */
    public function __construct(
        public readonly int $unixMs,
        public readonly int $worker,
        public readonly ?int $datacenter,
        public readonly int $sequence,
    ) {
    }

    /** The time of the ID, in UTC. */
    public function time(): \DateTimeImmutable
    {
        return (new \DateTimeImmutable('@' . intdiv($this->unixMs, 1000)))
            ->modify(sprintf('+%d milliseconds', $this->unixMs % 1000));
    }
}
