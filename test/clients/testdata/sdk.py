"""Each verb of openstacksdk's instance_ha, its pages, its errors and its waiting."""
import datetime
import sys

import openstack
from openstack import exceptions
from openstack import resource
from openstack.instance_ha.v1 import host
from openstack.instance_ha.v1 import notification
from openstack.instance_ha.v1 import segment

ha = openstack.connect().instance_ha
NOWHERE = '00000000-0000-4000-8000-00000000dead'


class VMove(resource.Resource):
    """As newer versions of openstacksdk have it; Debian's does not yet."""
    resource_key = 'vmove'
    resources_key = 'vmoves'
    base_path = '/notifications/%(notification_id)s/vmoves'
    allow_list = True
    allow_fetch = True
    _max_microversion = '1.3'
    _query_mapping = resource.QueryParameters('sort_key', 'sort_dir', 'type', 'status')
    notification_id = resource.URI('notification_id')
    uuid = resource.Body('uuid')
    server_id = resource.Body('instance_uuid')
    server_name = resource.Body('instance_name')
    source_host = resource.Body('source_host')
    dest_host = resource.Body('dest_host')
    status = resource.Body('status')
    type = resource.Body('type')


def equal(what, got, want):
    assert got == want, '%s: %r, want %r' % (what, got, want)


def refused(kind, text, call, *args, **kwargs):
    try:
        got = call(*args, **kwargs)
    except kind as e:
        assert text in str(e), '%r, want %r' % (str(e), text)
        return
    raise AssertionError('%r was no error, want %r' % (got, text))


def now():
    return datetime.datetime.utcnow().isoformat()


# Segments.
made = [ha.create_segment(name='rack-%d' % i, recovery_method=m, service_type='COMPUTE', description='no. %d' % i)
        for i, m in enumerate(['auto', 'reserved_host', 'auto_priority', 'rh_priority', 'auto'])]
equal('ids are integers', [type(s.id) for s in made], [int] * 5)
equal('newest first', [s.name for s in ha.segments()], ['rack-4', 'rack-3', 'rack-2', 'rack-1', 'rack-0'])
equal('pages of two', [s.name for s in ha.segments(limit=2)], ['rack-4', 'rack-3', 'rack-2', 'rack-1', 'rack-0'])
equal('pages of two, sorted', [s.name for s in ha.segments(limit=2, sort_key='name', sort_dir='asc')], ['rack-%d' % i for i in range(5)])
equal('after a marker', [s.name for s in ha.segments(marker=made[2].id)], ['rack-1', 'rack-0'])
equal('filtered', sorted(s.name for s in ha.segments(recovery_method='auto')), ['rack-0', 'rack-4'])
equal('enabled ones', len(list(ha.segments(is_enabled=True))), 5)
equal('shown', ha.get_segment(made[1].uuid).recovery_method, 'reserved_host')
changed = ha.update_segment(made[1].uuid, description='changed', is_enabled=False)
equal('changed', (changed.description, changed.is_enabled), ('changed', False))
equal('disabled ones', [s.name for s in ha.segments(is_enabled=False)], ['rack-1'])
refused(exceptions.ConflictException, 'already exists', ha.create_segment, name='rack-0', recovery_method='auto', service_type='COMPUTE')
refused(exceptions.BadRequestException, 'is not one of', ha.create_segment, name='x', recovery_method='none', service_type='COMPUTE')
refused(exceptions.NotFoundException, 'No failover segment with id', ha.get_segment, NOWHERE)
refused(exceptions.NotFoundException, 'No failover segment with id', ha.delete_segment, NOWHERE, ignore_missing=False)
equal('a missing one is ignored', ha.delete_segment(NOWHERE), None)
refused(exceptions.BadRequestException, 'Marker 999 could not be found.', lambda: list(ha.segments(marker=999)))
found = segment.Segment.find(ha, made[3].uuid)
equal('found by uuid', found.name, 'rack-3')
equal('found by name', segment.Segment.find(ha, 'rack-3').uuid, made[3].uuid)
equal('found nothing', segment.Segment.find(ha, 'rack-9', ignore_missing=True), None)
ha.delete_segment(made[4].uuid)
resource.wait_for_delete(ha, segment.Segment.new(id=made[4].uuid), 0.1, 10)

# Hosts.
rack = made[0].uuid
first = ha.create_host(rack, name='host-1', type='COMPUTE', control_attributes='SSH')
second = ha.create_host(rack, name='host-2', type='COMPUTE', control_attributes='SSH', reserved=True, on_maintenance=False)
equal('its segment', first.failover_segment_id, rack)
equal('pages of one', [h.name for h in ha.hosts(rack, limit=1)], ['host-2', 'host-1'])
equal('reserved ones', [h.name for h in ha.hosts(rack, reserved=True)], ['host-2'])
equal('on maintenance', [h.name for h in ha.hosts(rack, on_maintenance=True)], [])
equal('shown', ha.get_host(first.uuid, rack).name, 'host-1')
equal('changed', ha.update_host(second.uuid, rack, on_maintenance=True).on_maintenance, True)
refused(exceptions.ConflictException, 'already exists', ha.create_host, rack, name='host-1', type='COMPUTE', control_attributes='SSH')
refused(exceptions.BadRequestException, 'Compute service with name host-99 could not be found.', ha.create_host, rack, name='host-99', type='COMPUTE', control_attributes='SSH')
refused(exceptions.NotFoundException, 'under failover_segment', ha.get_host, first.uuid, made[1].uuid)
refused(exceptions.NotFoundException, 'No failover segment with id', lambda: list(ha.hosts(NOWHERE)))

# Notifications.
STOPPED = {'event': 'STOPPED', 'host_status': 'NORMAL', 'cluster_status': 'OFFLINE'}
note = ha.create_notification(type='COMPUTE_HOST', hostname='host-1', generated_time=now(), payload=STOPPED)
equal('new', (note.status, note.source_host_uuid), ('new', first.uuid))
refused(exceptions.ConflictException, 'is duplicate', ha.create_notification, type='COMPUTE_HOST', hostname='host-1', generated_time=now(), payload=STOPPED)
refused(exceptions.ConflictException, 'under maintenance', ha.create_notification, type='COMPUTE_HOST', hostname='host-2', generated_time=now(), payload=STOPPED)
refused(exceptions.BadRequestException, 'Host with name host-3 could not be found.', ha.create_notification, type='COMPUTE_HOST', hostname='host-3', generated_time=now(), payload=STOPPED)
refused(exceptions.NotFoundException, 'No notification with id', ha.get_notification, NOWHERE)
refused(exceptions.ConflictException, 'in-use', ha.delete_segment, rack)
refused(exceptions.ConflictException, 'in-use', ha.update_host, first.uuid, rack, type='other')
for _ in openstack.utils.iterate_timeout(120, 'the recovery did not end', 0.5):
    now_is = ha.get_notification(note.notification_uuid)
    if now_is.status not in ('new', 'running', 'error'):
        break
equal('recovered', now_is.status, 'finished')
waited = resource.wait_for_status(ha, notification.Notification.new(id=note.notification_uuid), 'finished', ['failed'], 0.5, 10)
equal('waited for', waited.notification_uuid, note.notification_uuid)
equal('listed', [n.notification_uuid for n in ha.notifications(limit=1, type='COMPUTE_HOST', source_host_uuid=first.uuid)], [note.notification_uuid])
equal('lately', [n.status for n in ha.notifications(generated_since='2020-01-01T00:00:00Z')], ['finished'])
details = ha.get('/notifications/' + note.notification_uuid, microversion='1.1').json()['notification']['recovery_workflow_details']
equal('tasks', [t['name'] for t in details], ['DisableComputeServiceTask', 'PrepareHAEnabledInstancesTask', 'EvacuateInstancesTask'])

# Moves.
moves = list(VMove.list(ha, notification_id=note.notification_uuid, limit=1, sort_key='id', sort_dir='asc'))
equal('moves', [(m.source_host, m.status, m.type) for m in moves], [('host-1', 'succeeded', 'evacuation')] * 2)
one = VMove.new(id=moves[0].uuid, notification_id=note.notification_uuid).fetch(ha)
equal('the move', one.server_id, moves[0].server_id)
equal('failed ones', list(VMove.list(ha, notification_id=note.notification_uuid, status='failed')), [])
refused(exceptions.NotFoundException, 'No vm move with id', VMove.new(id=NOWHERE, notification_id=note.notification_uuid).fetch, ha)

ha.delete_host(second.uuid, rack)
equal('one host left', [h.name for h in ha.hosts(rack)], ['host-1'])
print('all of it')
