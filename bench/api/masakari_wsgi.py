"""The WSGI application of Debian's Masakari 14.0.2, as its own masakari-wsgi has it, made to work with Debian's
oslo.messaging 14.0.3-0+deb12u1: that security update rebuilds the context of each request that emits a notification without
read_deleted, and Masakari then answers 500 to all that create or change something."""
from masakari.context import RequestContext

_strict = RequestContext.read_deleted
RequestContext.read_deleted = property(
    _strict.fget, lambda self, value: _strict.fset(self, value or 'no'), _strict.fdel)

from masakari.cmd.api import initialize_application  # noqa: E402

application = initialize_application()
