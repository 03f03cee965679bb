"""django-oscar as it comes, on PostgreSQL: what it must have been told to start, and guests may buy."""

import os

import oscar
from oscar.defaults import *  # noqa: F403

SECRET_KEY = "of an example"
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "urls"
SITE_ID = 1
USE_TZ = True
STATIC_URL = "/static/"
INSTALLED_APPS = [*oscar.INSTALLED_APPS, "sorl.thumbnail"]
if os.environ.get("GUARDED") == "1":
    INSTALLED_APPS[INSTALLED_APPS.index("oscar.apps.checkout.apps.CheckoutConfig")] = "guarded.apps.CheckoutConfig"
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "oscar.apps.basket.middleware.BasketMiddleware",
]
TEMPLATES = [{
    "BACKEND": "django.template.backends.django.DjangoTemplates",
    "APP_DIRS": True,
    "OPTIONS": {"context_processors": [
        "django.template.context_processors.request",
        "django.contrib.auth.context_processors.auth",
        "django.contrib.messages.context_processors.messages",
        "oscar.apps.search.context_processors.search_form",
        "oscar.apps.checkout.context_processors.checkout",
        "oscar.core.context_processors.metadata",
    ]},
}]
HAYSTACK_CONNECTIONS = {"default": {"ENGINE": "haystack.backends.simple_backend.SimpleEngine"}}
EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
OSCAR_ALLOW_ANON_CHECKOUT = True
DATABASES = {"default": {
    "ENGINE": "django.db.backends.postgresql",
    "HOST": os.environ.get("PGHOST", "127.0.0.1"),
    "PORT": os.environ.get("PGPORT", "5432"),
    "USER": os.environ.get("PGUSER", "postgres"),
    "PASSWORD": os.environ.get("PGPASSWORD", ""),
    "NAME": os.environ.get("PGDATABASE", "oscar"),
}}
