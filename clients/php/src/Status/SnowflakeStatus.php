<?php

declare(strict_types=1);

namespace Leafd\Status;

/** Snowflake IDs: the worker ID, its registry, and the clock. */
final class SnowflakeStatus
{
    /**
     * @param int|null $worker          the worker ID, if there is one
     * @param string   $registry        where the worker ID comes from
     * @param string   $layout          the layout; {@see \Leafd\Layout::parse()} reads it
     * @param int      $ceilingUnixMs   nothing is issued at or past it before it is raised on disk
     * @param int      $lastUnixMs      time of the last ID issued, may lead the clock; 0 before the first
     * @param int      $clockUnixMs     the daemon's clock
     * @param int      $issued          IDs issued since the start
     * @param string   $identity        the daemon's identity in the registry; empty if it needs none
     * @param int|null $lastReportMsAgo time since the registry last took a report
     * @param string   $registryError   the registry's error from its last call; empty if that call succeeded
     * @param int|null $limitUnixMs     without another report nothing is issued at or past it
     * @param int|null $clockOffsetMs   mean of the live peers' clocks minus the daemon's
     * @param int      $peers           peers that answered that check
     */
    public function __construct(
        public readonly SnowflakeState $state,
        public readonly ?int $worker,
        public readonly string $registry,
        public readonly string $layout,
        public readonly int $ceilingUnixMs,
        public readonly int $lastUnixMs,
        public readonly int $clockUnixMs,
        public readonly int $issued,
        public readonly string $identity,
        public readonly ?int $lastReportMsAgo,
        public readonly string $registryError,
        public readonly ?int $limitUnixMs,
        public readonly ?int $clockOffsetMs,
        public readonly int $peers,
    ) {
    }
}
