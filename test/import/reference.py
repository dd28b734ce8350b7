"""Debian's Masakari (14.0.2), api and engine in one process, to have a database made by the real one.

reference.py CONFIG-FILE API-PASTE

Makes the tables, prints "listening on http://127.0.0.1:PORT" and answers there until it is ended. Three repairs make Debian's packages work:

* The security update of oslo.messaging rebuilds each request's context without read_deleted, and Masakari's context refuses None.
* python3-taskflow lacks its alembic files: its tables are made from its own definition of them.
* The message bus is oslo.messaging's own fake one, in this process: no RabbitMQ is needed.
"""
import eventlet

eventlet.monkey_patch()

import sys  # noqa: E402

import sqlalchemy  # noqa: E402
from eventlet import wsgi  # noqa: E402
from oslo_log import log as logging  # noqa: E402
from paste import deploy  # noqa: E402
from taskflow.persistence.backends import impl_sqlalchemy  # noqa: E402
from taskflow.persistence.backends.sqlalchemy import tables  # noqa: E402

import masakari.conf  # noqa: E402
from masakari import config, objects, rpc, service, version  # noqa: E402
from masakari.common import config as common_config  # noqa: E402
from masakari.context import RequestContext  # noqa: E402
from masakari.db.sqlalchemy import migration  # noqa: E402

CONF = masakari.conf.CONF

strict = RequestContext.read_deleted
RequestContext.read_deleted = property(
    strict.fget, lambda self, value: strict.fset(self, value or 'no'), strict.fdel)


def make_taskflow_tables(connection):
    """Stands in for TaskFlow's own migration."""
    metadata = sqlalchemy.MetaData()
    tables.fetch(metadata)
    metadata.create_all(connection._engine)


impl_sqlalchemy.Connection.upgrade = make_taskflow_tables


def main(conf, paste):
    config.parse_args(['masakari', '--config-file', conf])
    logging.setup(CONF, 'masakari')
    objects.register_all()
    migration.db_sync()
    common_config.set_middleware_defaults()
    rpc.init(CONF)
    engine = service.Service.create(binary='masakari-engine', topic=CONF.masakari_topic)
    engine.start()
    app = deploy.loadapp('config:%s' % paste, name='masakari_api')
    listener = eventlet.listen(('127.0.0.1', 0))
    print('masakari %s listening on http://127.0.0.1:%d' % (version.version_string(), listener.getsockname()[1]), flush=True)
    wsgi.server(listener, app, log_output=False)


if __name__ == '__main__':
    main(*sys.argv[1:])
