-- Lists sorted by when a report was made, or by when a notification was changed last, begin at a page's place in an index;
-- those of a type and a status together read no others.
-- Only new indexes: an older salvor beside this one does not mind them.

CREATE INDEX IF NOT EXISTS notifications_made_idx ON notifications (deleted, generated_time, created_at, id);

--bun:split

CREATE INDEX IF NOT EXISTS notifications_updated_idx ON notifications (deleted, COALESCE(updated_at, '0001-01-01 00:00:00'), created_at, id);

--bun:split

CREATE INDEX IF NOT EXISTS notifications_type_status_idx ON notifications (deleted, type, status, created_at, id);
