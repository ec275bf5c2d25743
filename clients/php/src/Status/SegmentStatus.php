<?php

declare(strict_types=1);

namespace Leafd\Status;

/** Segment IDs and the store that they are leased from. */
final class SegmentStatus
{
    /**
     * @param string $store      the store in words, without passwords
     * @param string $storeError why the store does not work; empty while it works
     * @param int    $tags       tags known
     * @param int    $waiting    requests that wait for a range now
     * @param int    $issued     IDs issued since the start
     * @param int    $leases     leases taken since the start
     */
    public function __construct(
        public readonly string $store,
        public readonly string $storeError,
        public readonly int $tags,
        public readonly int $waiting,
        public readonly int $issued,
        public readonly int $leases,
    ) {
    }
}
