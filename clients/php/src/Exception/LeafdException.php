<?php

declare(strict_types=1);

namespace Leafd\Exception;

/** Every exception of the client. The caller got no ID in any of these cases. */
interface LeafdException extends \Throwable
{
    /** Whether the same call may succeed later without anyone changing anything. */
    public function isTemporary(): bool;
}
