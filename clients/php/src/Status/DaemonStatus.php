<?php

declare(strict_types=1);

namespace Leafd\Status;

/** The state of the daemon. Times are in milliseconds, and `…UnixMs` counts from 1970-01-01T00:00:00Z. */
final class DaemonStatus
{
    /**
     * @param string $version     version of the daemon, as in `0.1.0`
     * @param int    $pid         its process ID, as it sees itself
     * @param int    $uptimeMs    since it became ready
     * @param int    $connections open connections, this one included
     * @param int    $requests    requests for IDs since the start, refused ones included
     * @param string $stateDir    where it keeps its state
     */
    public function __construct(
        public readonly string $version,
        public readonly int $pid,
        public readonly int $uptimeMs,
        public readonly int $connections,
        public readonly int $requests,
        public readonly string $stateDir,
        public readonly SegmentStatus $segments,
        public readonly SnowflakeStatus $snowflake,
    ) {
    }
}
