"""Debian's Masakari API (14.0.2) alone, to be compared with salvor's.

masakari_api.py CONFIG-FILE API-PASTE

Makes the tables, prints "listening on http://127.0.0.1:PORT" and answers there until it is ended. What is made to fit:

* The security update of oslo.messaging rebuilds each request's context without read_deleted, and Masakari's context refuses None.
* noauth2 takes the project from the request's headers, as Masakari itself has done since (14 knows none, and refuses every URL with a project).
* No engine is there: nothing is handed over, and one that is asked for a recovery's details knows none.
"""
import eventlet

eventlet.monkey_patch()

import sys  # noqa: E402

from eventlet import wsgi  # noqa: E402
from oslo_log import log as logging  # noqa: E402
from paste import deploy  # noqa: E402

import masakari.conf  # noqa: E402
from masakari import config, objects, rpc, version  # noqa: E402
from masakari.common import config as common_config  # noqa: E402
from masakari.context import RequestContext  # noqa: E402
from masakari.db.sqlalchemy import migration  # noqa: E402

CONF = masakari.conf.CONF

strict = RequestContext.read_deleted
RequestContext.read_deleted = property(
    strict.fget, lambda self, value: strict.fset(self, value or 'no'), strict.fdel)


projects = {}  # of the requests under way, by their green thread
as_made = RequestContext.__init__


def with_project(self, *args, **kwargs):
    """Makes a context whose project is the headers'."""
    as_made(self, *args, **kwargs)
    self.project_id = projects.get(eventlet.getcurrent())


RequestContext.__init__ = with_project


def of_headers(app):
    """Notes the project that a request names."""
    def noted(environ, start_response):
        me = eventlet.getcurrent()
        projects[me] = environ.get('HTTP_X_PROJECT_ID') or environ.get('HTTP_X_TENANT_ID') or environ.get('HTTP_X_TENANT')
        try:
            return app(environ, start_response)
        finally:
            del projects[me]
    return noted


def no_details(self, context, notification):
    notification.recovery_workflow_details = []
    return notification


def main(conf, paste):
    config.parse_args(['masakari', '--config-file', conf])
    logging.setup(CONF, 'masakari')
    objects.register_all()
    migration.db_sync()
    common_config.set_middleware_defaults()
    rpc.init(CONF)
    from masakari.engine import rpcapi
    rpcapi.EngineAPI.process_notification = lambda self, context, notification: None
    rpcapi.EngineAPI.get_notification_recovery_workflow_details = no_details
    app = of_headers(deploy.loadapp('config:%s' % paste, name='masakari_api'))
    wsgi.MAX_HEADER_LINE = CONF.wsgi.max_header_line
    listener = eventlet.listen(('127.0.0.1', 0))
    print('masakari %s listening on http://127.0.0.1:%d' % (version.version_string(), listener.getsockname()[1]), flush=True)
    wsgi.server(listener, app, log_output=False, debug=False)


if __name__ == '__main__':
    main(*sys.argv[1:])
