-- When the event types of a subscription were changed, for the comparison of relayed events with their deliveries.

-- Programs that know V27 and not V28 change the event types without the time: then the comparison can count deliveries of
-- events of the hour before the change as missing.
ALTER TABLE subscriptions ADD COLUMN event_types_changed_at timestamptz;
COMMENT ON COLUMN subscriptions.event_types_changed_at IS
    'When an operator last changed event_types; null if never since the creation.';
