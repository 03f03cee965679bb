"""Makes the tables, one country to send to, and products 1 to 8: python3 products.py"""

import os

import django
from django.core.management import call_command

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
django.setup()
call_command("migrate", verbosity=0)

from oscar.apps.partner.models import Partner, StockRecord  # noqa: E402
from oscar.core.loading import get_model  # noqa: E402

get_model("address", "Country").objects.get_or_create(
    iso_3166_1_a2="CN", defaults={"printable_name": "China", "name": "China", "is_shipping_country": True}
)
kind, _ = get_model("catalogue", "ProductClass").objects.get_or_create(name="boxes")
partner, _ = Partner.objects.get_or_create(name="warehouse")
for i in range(1, 9):
    product, _ = get_model("catalogue", "Product").objects.get_or_create(
        id=i, defaults={"title": f"box {i}", "product_class": kind}
    )
    StockRecord.objects.get_or_create(
        product=product, partner=partner, defaults={"partner_sku": f"box-{i}", "price": 10, "num_in_stock": 10}
    )
