-- What the recipes work on: an application's own database, on the server that has Leasehold's.
CREATE DATABASE shop CHARACTER SET utf8mb4;

CREATE TABLE shop.orders (
	id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
	amount DECIMAL(10,2) NOT NULL
) ENGINE=InnoDB;

-- No unique key on order_id: if a handler issued an invoice twice, here it would show.
CREATE TABLE shop.invoices (
	id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
	order_id BIGINT UNSIGNED NOT NULL,
	amount DECIMAL(10,2) NOT NULL
) ENGINE=InnoDB;
